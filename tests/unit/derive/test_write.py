"""The checks of what the tasks that write a derived table return: no file of others, and no lost row."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from kinesis_assets.derive.data_files import DerivedFile, Manifest, RecordCounts, WritingJob
from kinesis_assets.derive.write import checked_manifest
from kinesis_assets.errors import LandingFailed
from kinesis_assets.table.data_file import NEW_FILES, TableFile
from kinesis_assets.table.store.storage import TableFolder

BATCH = 7
JOB = WritingJob(TableFolder.at("orders"), pa.schema([]), (), BATCH)
REMOVED = {0: TableFile("0.parquet", 1, rows=3), 4: TableFile("4.parquet", 1, rows=2)}
COUNTING = replace(JOB, error_column="error")
DROPPING = replace(COUNTING, keeps_errors=False)


def file(number, rows, new_rows=0, folder="", batch_id=BATCH):
    return DerivedFile(
        f"{folder}part-{batch_id}-{number:032x}.{NEW_FILES.name}.parquet", 1, rows, new_rows, {}, "{}"
    )


def replaced(number, rows):
    return file(number, rows, folder="_kinesis/changes/")


def check(*manifests, job=JOB):
    return checked_manifest("orders", manifests, job)


def test_the_manifests_of_all_tasks_are_added():
    found = check(Manifest((file(1, 2, 2),)), Manifest((file(2, 1, 1),)), Manifest())
    assert [each.rows for each in found.files] == [2, 1]
    assert check() == Manifest()


# Lost rows


def test_each_row_of_a_copied_file_is_in_its_copy_or_replaced():
    check(
        Manifest((file(1, 4, new_rows=2),), (replaced(2, 1),)),
        Manifest((), (replaced(3, 2),)),
        job=replace(JOB, removed=REMOVED),
    )


@pytest.mark.parametrize(
    "manifest",
    [
        Manifest((file(1, 4),)),
        Manifest((file(1, 6),)),
        Manifest((file(1, 5, new_rows=1),)),
        Manifest((file(1, 3),), (replaced(2, 1),)),
        Manifest((file(1, 5),), (replaced(2, 1),)),
        Manifest(),
    ],
    ids=["a row less", "a row more", "one new", "less in both", "more in both", "none"],
)
def test_copies_with_another_number_of_rows_are_refused(manifest):
    with pytest.raises(LandingFailed, match=r"orders.*\d rows.*copies"):
        check(manifest, job=replace(JOB, removed=REMOVED))


def test_copies_of_a_file_whose_number_of_rows_is_unknown_are_not_compared():
    unknown = {**REMOVED, 5: TableFile("5.parquet", 1, rows=None)}
    check(Manifest((file(1, 1),)), job=replace(JOB, removed=unknown))


@pytest.mark.parametrize(("job", "rows"), [(COUNTING, 5), (DROPPING, 3)], ids=["kept", "dropped"])
def test_each_record_that_was_counted_is_a_new_row_unless_its_error_is_dropped(job, rows):
    counts = RecordCounts(5, 2, "bad")
    assert check(Manifest((file(1, rows, rows),), counts=counts), job=job).counts == counts
    for other in (rows - 1, rows + 1):
        with pytest.raises(LandingFailed, match=rf"\b{other} new rows\b.*\b5 records\b.*\b2\b"):
            check(Manifest((file(1, other, other),), counts=counts), job=job)


def test_a_task_that_does_not_count_although_it_should_or_the_reverse_is_refused():
    counting = Manifest(counts=RecordCounts())
    for job, manifests in [(COUNTING, [counting, Manifest()]), (JOB, [counting])]:
        with pytest.raises(LandingFailed, match="counted"):
            check(*manifests, job=job)


# Files of others


@pytest.mark.parametrize(
    "manifest",
    [
        Manifest((file(1, 1, 1, batch_id=BATCH + 1),)),
        Manifest((file(1, 1, 1, folder="other/"),)),
        Manifest((replaced(1, 0),)),
        Manifest((), (file(1, 0),)),
        Manifest((file(1, 1, 1), file(1, 1, 1))),
        Manifest((file(1, 1, new_rows=2),)),
    ],
    ids=["another attempt", "another folder", "changes", "no changes", "twice", "more new rows than rows"],
)
def test_a_file_that_the_attempt_cannot_have_written_is_refused(manifest):
    with pytest.raises(LandingFailed, match="a file"):
        check(manifest)
