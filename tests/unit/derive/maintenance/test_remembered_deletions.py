"""The files with the deletions that an upsert remembers: which are read, merged, forgotten and deleted."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kinesis_assets.derive import remembered_deletions as remembered_module
from kinesis_assets.derive.commit import Attempt, commit
from kinesis_assets.derive.commit_entry import Definition, Kind, RememberedDeletions
from kinesis_assets.derive.cursor import Cursor
from kinesis_assets.derive.data_files import BATCH_COLUMN, DELETIONS_FOLDER, DerivedFileWriter
from kinesis_assets.derive.remembered_deletions import deletion_files, with_few_files
from kinesis_assets.derive.upsert import _may_contain
from kinesis_assets.derive.write import writing_job
from kinesis_assets.errors import ClocksDisagree, CursorConflict, DataFileInvalid, UpsertOvertaken
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.maintenance.pruning import CHAIN_NEEDED
from kinesis_assets.table.maintenance.steps import MaintenanceLimits, State
from support.maintained_table import days_from_now
from support.plain_derived import steps_of
from support.table_folder import files_of, folder_of, set_age

FILES = f"{DELETIONS_FOLDER}/*"
SCHEMA = pa.schema({"key": pa.int64(), "value": pa.int64(), BATCH_COLUMN: pa.int64()})
WEEK = timedelta(days=7)
FORGET = ("forget", DELETIONS_FOLDER)


def committed(derived, remembered):
    newest = derived.table.snapshot().newest
    return commit(
        derived.table,
        Attempt(
            cursor=Cursor(source="source", commit=1),
            batch_id=new_id(derived.table.clock),
            definition=Definition(kind=Kind.UPSERT, key=("key",)),
            deletions=remembered,
        ),
        expected=None if newest is None else newest.commit_id,
    )


def written(derived, *keys, at=None):
    """Write a file with the deletions of some keys, as a step does."""
    batch_id = new_id(derived.table.clock)
    job = writing_job(derived.table, SCHEMA, (), batch_id)
    writer = DerivedFileWriter(replace(job, prefix=f"{DELETIONS_FOLDER}/"))
    rows = [{"key": key, "value": 5, BATCH_COLUMN: batch_id} for key in keys]
    writer.write(pa.RecordBatch.from_pylist(rows, SCHEMA))
    return deletion_files(writer.close(), SCHEMA, ("key",), at or datetime.now(UTC))


def bury(derived, *keys, at=None, deleted_for=WEEK):
    """Commit the deletions of some keys, beside those that the table remembers."""
    before = derived.table.snapshot().deletions(["value"])
    files = (*before, *written(derived, *keys, at=at))
    seconds = int(deleted_for.total_seconds())
    return committed(derived, RememberedDeletions(order_by=("value",), seconds=seconds, files=files))


def named(derived):
    """Return the files with the deletions that the table remembers."""
    return derived.table.snapshot().deletions(["value"])


def keys_of(derived):
    """Return the keys whose deletion the table remembers."""
    found = []
    for file in named(derived):
        with derived.table.files.open_input_file(file.path) as source:
            found += pq.read_table(source)["key"].to_pylist()
    return sorted(found)


def test_a_commit_names_the_deletions_before_it_unless_it_says_others(derived):
    bury(derived, 1, 2)
    derived.append((1, 1, "a"))
    derived.upsert((1, 2, "a"))
    assert keys_of(derived) == [1, 2]
    assert (named(derived)[0].smallest, named(derived)[0].greatest) == ({"key": 1}, {"key": 2})
    committed(derived, RememberedDeletions())
    assert keys_of(derived) == []


def test_a_missing_file_of_new_deletions_prevents_the_commit(derived):
    bury(derived, 1)
    (file,) = written(derived, 2)
    (folder_of(derived.table) / file.path).unlink()
    remembered = RememberedDeletions(order_by=("value",), seconds=60, files=(*named(derived), file))
    with pytest.raises(DataFileInvalid):
        committed(derived, remembered)
    assert keys_of(derived) == [1]


def test_an_entry_without_deletions_is_as_older_releases_read_it(derived):
    derived.append((1, 1, "a"))
    entry = msgspec.to_builtins(derived.table.snapshot().newest)
    assert not {"tombstones", "maintains"} & {*entry}


def test_a_file_is_read_only_if_it_may_have_one_of_the_keys(derived):
    bury(derived, 10, 20)
    (file,) = (each.as_data_file(["key", "other"]) for each in named(derived))
    assert [_may_contain(file, {"key": (key, key)}) for key in (9, 10, 20, 21)] == [False, True, True, False]
    assert _may_contain(file, {"key": (0, 15), "other": ("a", "b")})


def test_a_date_is_compared_as_the_bounds_of_a_step_are():
    schema = pa.schema({"day": pa.date32()})

    class File:
        path, size, rows = "path", 1, 1
        statistics = '{"minValues": {"day": "1970-01-02"}, "maxValues": {"day": "1970-01-31"}}'

    (file,) = deletion_files([File()], schema, ["day"], datetime.now(UTC))
    assert (file.smallest, file.greatest) == ({"day": 1}, {"day": 30})


def test_deletions_are_forgotten_once_they_are_old_by_both_clocks(derived):
    bury(derived, 1)
    assert FORGET not in steps_of(derived, days_from_now(7.3))
    step = steps_of(derived, days_from_now(7.4))[FORGET]
    assert (step.state, step.rows, step.files) == (State.DONE, 1, 1)
    assert keys_of(derived) == []
    assert derived.table.snapshot().newest.maintains


def test_a_commit_of_a_slow_clock_is_not_forgotten_early(derived):
    bury(derived, 1, at=days_from_now(-100))
    assert FORGET not in steps_of(derived, days_from_now(7.3))
    assert keys_of(derived) == [1]


def test_a_commit_of_a_fast_clock_is_not_remembered_for_ever(derived):
    bury(derived, 1, at=days_from_now(1000))
    assert FORGET not in steps_of(derived, days_from_now(7.3))
    steps_of(derived, days_from_now(7.4))
    assert keys_of(derived) == []


def test_a_file_that_the_store_dates_back_is_kept_until_its_commit_is_old(derived):
    bury(derived, 1)
    set_age(derived.table, timedelta(days=100), *files_of(derived.table, FILES))
    assert FORGET not in steps_of(derived, days_from_now(7.3))
    assert keys_of(derived) == [1]


def test_nothing_is_forgotten_by_a_clock_that_another_one_does_not_confirm(derived):
    bury(derived, 1)
    with pytest.raises(ClocksDisagree):
        steps_of(derived, days_from_now(0), days_from_now(1000))
    with pytest.raises(ClocksDisagree):
        steps_of(derived, days_from_now(1000), days_from_now(0))
    assert keys_of(derived) == [1]


def test_small_files_of_about_the_same_time_are_merged(derived):
    for key in range(3):
        bury(derived, key, at=days_from_now(-0.001 * key))
    bury(derived, 10, at=days_from_now(-2))
    step = steps_of(derived, limits=MaintenanceLimits(small_files=2))[FORGET]
    assert (step.state, step.rows, step.files) == (State.DONE, 0, 3)
    assert keys_of(derived) == [0, 1, 2, 10]
    newest = max(named(derived), key=lambda file: file.at)
    assert (newest.rows, newest.smallest, newest.greatest) == (3, {"key": 0}, {"key": 2})
    assert days_from_now(-0.001) < newest.at <= days_from_now(0)
    assert FORGET not in steps_of(derived, limits=MaintenanceLimits(small_files=2))


def test_small_files_of_the_same_hour_are_merged_however_short_deletions_are_remembered(derived):
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    times = [hour - timedelta(minutes=1), *(hour + timedelta(minutes=minutes) for minutes in (0, 20, 59))]
    for key, at in enumerate(times):
        bury(derived, key, at=at, deleted_for=timedelta(minutes=1))
    step = steps_of(derived, limits=MaintenanceLimits(small_files=2))[FORGET]
    assert (step.rows, step.files, sorted(file.rows for file in named(derived))) == (0, 3, [1, 3])


def test_a_dry_run_forgets_and_merges_nothing(derived):
    for key in range(3):
        bury(derived, key)
    before = derived.table.snapshot().version
    steps = steps_of(derived, limits=MaintenanceLimits(small_files=2), dry_run=True)
    assert steps[FORGET].state is State.PLANNED
    assert derived.table.snapshot().version == before


def test_a_step_merges_files_if_there_are_too_many(derived):
    bury(derived, 0)
    base = derived.table.snapshot()
    files = (*named(derived), *(written(derived, key)[0] for key in range(1, 49)))
    many = msgspec.structs.replace(base.newest.deletions, files=files)
    enough = msgspec.structs.replace(many, files=files[:-1])
    assert with_few_files(base, enough, ("key",), 1) == enough
    (merged,) = with_few_files(base, many, ("key",), new_id(derived.table.clock)).files
    assert (merged.rows, merged.smallest, merged.greatest) == (49, {"key": 0}, {"key": 48})


def test_files_that_no_commit_names_are_deleted_and_those_of_the_newest_are_kept(derived):
    bury(derived, 1)
    written(derived, 2)  # by an attempt that never committed
    steps_of(derived, days_from_now(6.5))
    kept = {file.path for file in named(derived)}
    assert files_of(derived.table, FILES) == kept
    steps_of(derived, days_from_now(8))
    assert files_of(derived.table, FILES) == set()


def test_files_of_an_attempt_that_may_still_commit_are_kept(derived):
    bury(derived, 1)
    written(derived, 2)
    steps_of(derived, days_from_now(CHAIN_NEEDED / timedelta(days=1)))
    assert len(files_of(derived.table, FILES)) == 2


def test_a_step_that_appends_lands_although_a_maintenance_came_first(derived):
    bury(derived, 1)
    append = derived.planned([(1, 1, "a")])
    steps_of(derived, days_from_now(7.4))
    before = derived.table.snapshot().newest
    assert append().previous == before.commit_id
    assert keys_of(derived) == []


def test_a_step_that_has_read_deletions_is_planned_again_if_a_maintenance_came_first(derived):
    bury(derived, 1)
    upsert = derived.planned([(1, 1, "a")], replacing=True)
    steps_of(derived, days_from_now(7.4))
    with pytest.raises(UpsertOvertaken):
        upsert()


def test_a_maintenance_leaves_deletions_if_a_run_came_first(derived, when):
    bury(derived, 1)
    when(remembered_module, "commit", lambda: derived.append((1, 1, "a")))
    step = steps_of(derived, days_from_now(7.4))[FORGET]
    assert step.state is State.LEFT
    assert keys_of(derived) == [1]


def test_a_run_that_another_run_overtook_fails_also_after_a_maintenance(derived):
    bury(derived, 1)
    append = derived.planned([(1, 1, "a")])
    derived.append((2, 2, "a"))
    steps_of(derived, days_from_now(7.4))
    with pytest.raises(CursorConflict):
        append()
