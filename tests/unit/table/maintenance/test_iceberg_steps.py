"""The maintenance of an Iceberg table: compaction, vacuum and expiry of rows."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.types import StringType

from kinesis_assets.errors import CommitOvertaken, DataFileInvalid, TableRewritten, TableUnsuitable
from kinesis_assets.table.data_file import STATISTICS
from kinesis_assets.table.data_file_writer import FileLayout
from kinesis_assets.table.iceberg.raw_table import IcebergSnapshot
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
from kinesis_assets.table.maintenance.iceberg_steps import _compact_day
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.maintenance.steps import DEFAULT_LIMITS, State
from kinesis_assets.table.policy import VACUUM_RETENTION
from support.attempts import (
    STREAM,
    Attempt,
    assert_rows_are_what_positions_say,
    current_positions,
    current_summary,
    freeze_all,
    rows_by_shard,
    shards,
)
from support.formats import delete, iceberg_of, reopened, restore, table_of
from support.iceberg.foreign import restore_catalog
from support.timing import WRITING

pytestmark = pytest.mark.slow  # a compaction of an Iceberg table takes more than a tenth of a second

DAY = "2026-02-02"


@pytest.fixture
def table(tmp_path):
    """A table with four files of a day, of whose five snapshots two are kept."""
    table = table_of("iceberg", str(tmp_path / "table"), WRITING, snapshots_kept=2)
    freeze_all(table, shards("a"))
    for _ in range(DEFAULT_LIMITS.small_files):
        Attempt(table, current_positions(table), {"a": 1}).commit()
    return table


def make_old(table):
    """Set back the time of all files by more than they are kept."""
    for path in Path(table.uri).rglob("*"):
        if path.is_file():
            time = path.stat().st_mtime - (VACUUM_RETENTION + timedelta(hours=1)).total_seconds()
            os.utime(path, (time, time))


def steps(table, **settings):
    return {step.step: step for step in maintain(table, current_summary(), **settings)}


def files(table):
    return {str(path.relative_to(table.uri)) for path in Path(table.uri).rglob("*.*")}


def test_vacuum_deletes_old_files_that_no_snapshot_names(table):
    Path(table.uri, "arrival_date=2026-02-02/part-lost.parquet").write_bytes(b"x")
    Path(table.uri, "metadata/lost.avro").write_bytes(b"x")
    make_old(table)
    before = files(table)
    assert steps(table, dry_run=True)["vacuum"].state is State.PLANNED
    assert files(table) == before
    step = steps(table)["vacuum"]
    assert step.state is State.DONE
    deleted = before - files(table)
    assert len(deleted) == step.files
    assert {"arrival_date=2026-02-02/part-lost.parquet", "metadata/lost.avro"} < deleted
    assert sum(path.startswith("metadata/snap-") for path in deleted) == 3
    assert not any(path.startswith("_kinesis/positions") for path in deleted)
    assert_rows_are_what_positions_say(table)
    Attempt(table, current_positions(table), {"a": 1}).commit()
    assert len(iceberg_of(table).inspect.snapshots()) == 2


@pytest.mark.parametrize(
    "path",
    [
        "catalog.db",  # as sqlite:////lake/orders/catalog.db names it
        "orders_typed/part-1.parquet",
        "orders_typed/_delta_log/00000000000000000000.json",
        "orders_typed/metadata/v1.metadata.json",
        "metadata/version-hint.text",
    ],
)
def test_vacuum_keeps_files_that_are_not_of_the_table(table, path):
    Path(table.uri, "metadata/lost.avro").write_bytes(b"x")
    Path(table.uri, path).parent.mkdir(parents=True, exist_ok=True)
    Path(table.uri, path).write_bytes(b"x")
    make_old(table)
    assert steps(table)["vacuum"].state is State.DONE
    assert path in files(table)
    assert "metadata/lost.avro" not in files(table)


def test_vacuum_keeps_the_files_of_another_table_in_the_folder(table):
    inner = table_of("delta", str(Path(table.uri, "data", "other")), WRITING)
    freeze_all(inner, shards("a"))
    Attempt(inner, current_positions(inner), {"a": 3}).commit()
    before = {path for path in files(table) if path.startswith("data/")}
    make_old(table)
    steps(table)
    assert {path for path in files(table) if path.startswith("data/")} == before
    assert_rows_are_what_positions_say(inner)


@pytest.mark.parametrize(
    "path", ["data/approximate_arrival_timestamp_day=2026-02-02/x.parquet", "metadata/x.gz.metadata.json"]
)
def test_vacuum_deletes_files_of_other_writers_of_the_table(table, path):
    Path(table.uri, path).parent.mkdir(parents=True, exist_ok=True)
    Path(table.uri, path).write_bytes(b"x")
    make_old(table)
    assert steps(table)["vacuum"].state is State.DONE
    assert path not in files(table)


def test_vacuum_keeps_what_the_same_maintenance_removes_for_readers(table):
    make_old(table)
    small = {file.path for file in table.snapshot().data_files()}
    for _ in maintain(table, current_summary()):
        for _ in range(2):  # which expires the snapshots that name the files
            Attempt(table, current_positions(table), {"a": 1}).commit()
    assert not small & {file.path for file in table.snapshot().data_files()}
    assert small <= files(table)
    steps(table)
    assert not small & files(table)
    assert_rows_are_what_positions_say(table)


def test_vacuum_keeps_young_files(table):
    Path(table.uri, "arrival_date=2026-02-02/part-lost.parquet").write_bytes(b"x")
    assert "vacuum" not in steps(table)


def test_a_commit_that_paused_before_a_vacuum_is_refused(table):
    """Its files may have been deleted since it has verified them."""
    steps(table)
    attempt, opened = Attempt(table, current_positions(table), {"a": 2}), table.snapshot()
    make_old(table)
    assert steps(table)["vacuum"].state is State.DONE
    assert not files(table) & {file.path for file in attempt.files}
    with pytest.raises(CommitOvertaken):
        opened.commit(attempt.files, identity=STREAM, positions=current_positions(table))
    assert_rows_are_what_positions_say(table)


def test_vacuum_keeps_the_files_of_a_commit_that_comes_right_before_it(table, monkeypatch):
    attempt = Attempt(table, current_positions(table), {"a": 2})
    make_old(table)
    original = IcebergSnapshot.add_nothing

    def after_another(snapshot):
        monkeypatch.undo()
        attempt.commit()
        return original(snapshot)

    monkeypatch.setattr(IcebergSnapshot, "add_nothing", after_another)
    assert steps(table)["vacuum"].state is State.DONE
    assert_rows_are_what_positions_say(table)


def commit_more(table, commits):
    for _ in range(commits):
        Attempt(table, current_positions(table), {"a": 1}).commit()


@pytest.mark.parametrize("later", [0, 1, 2, 5])
def test_vacuum_is_refused_if_the_catalog_was_restored_whatever_is_committed_later(table, later):
    restore_catalog(iceberg_of(table), 2)
    make_old(table)
    commit_more(table, later)
    before = files(table)
    with pytest.raises(TableUnsuitable, match="commits that its catalog does not know"):
        steps(table)
    assert files(table) == before


def test_vacuum_is_left_while_it_is_unknown_whether_the_catalog_has_lost_the_last_commit(table):
    restore_catalog(iceberg_of(table), 1)
    make_old(table)
    before = files(table)
    step = steps(table, limits=replace(DEFAULT_LIMITS, small_files=100))["vacuum"]
    assert step.state is State.LEFT
    assert "the next commit decides" in step.reason
    assert before <= files(table)
    commit_more(table, 1)
    assert steps(table)["vacuum"].state is State.DONE
    assert_rows_are_what_positions_say(table)


def test_files_of_attempts_that_were_overtaken_do_not_stop_a_vacuum(table):
    """A SQL catalog leaves such a file if another commit comes between its check and its write."""
    make_old(table)
    for path in Path(table.uri).glob("metadata/*.metadata.json"):
        shutil.copyfile(path, path.with_name(f"{path.name[:5]}-{uuid4()}.metadata.json"))
    assert steps(table)["vacuum"].state is State.DONE


def test_files_of_an_older_table_in_the_folder_do_not_stop_a_vacuum(table):
    path = next(Path(table.uri).glob("metadata/00005-*.metadata.json"))
    older = path.read_text().replace(table.snapshot().id, str(uuid4()))
    path.with_name("00099-older.metadata.json").write_text(older)
    make_old(table)
    assert steps(table)["vacuum"].state is State.DONE


def test_the_small_files_of_a_day_are_merged_in_one_snapshot(table):
    before, snapshot = current_positions(table), table.snapshot()
    step = steps(table)["compact"]
    assert (step.of, step.state, step.files) == (DAY, State.DONE, 4)
    (file,) = table.snapshot().data_files(["shard_id", "batch_id"])
    assert (file.rows, file.smallest["shard_id"]) == (4, "a")
    assert file.smallest["batch_id"] < file.greatest["batch_id"]
    newest = iceberg_of(table).current_snapshot()
    assert newest.summary.operation.value == "replace"
    assert (newest.summary["total-records"], newest.summary["total-data-files"]) == ("4", "1")
    assert table.snapshot().version == snapshot.version + 1
    assert current_positions(table) == before
    assert_rows_are_what_positions_say(table)
    assert "compact" not in steps(table)
    Attempt(table, before, {"a": 1}).commit()
    assert_rows_are_what_positions_say(table)


def test_a_merged_file_has_the_columns_and_the_encoding_of_rewritten_ones(table):
    steps(table)
    (file,) = table.snapshot().data_files()
    footer = pq.ParquetFile(Path(table.uri, file.path))
    assert [int(field.metadata[b"PARQUET:field_id"]) for field in footer.schema_arrow] == list(range(1, 10))
    assert footer.num_row_groups == 1
    columns = [footer.metadata.row_group(0).column(number) for number in range(9)]
    assert {column.compression for column in columns} == {"ZSTD"}
    assert {column.path_in_schema for column in columns if column.is_stats_set} == {*STATISTICS}


def test_files_are_as_large_as_the_policy_says(table):
    sizes = replace(table.policy, data_files=FileLayout(row_group_bytes=1, file_bytes=1))
    table = reopened(table, sizes)
    assert steps(table)["compact"].state is State.DONE
    assert [file.rows for file in table.snapshot().data_files()] == [1, 1, 1, 1]
    assert_rows_are_what_positions_say(table)


@pytest.fixture
def before_compaction(monkeypatch):
    """Call functions, each once, right before the next tries to commit a compaction."""

    def before_compaction(*acts):
        original, left = IcebergSnapshot.replace_files, list(acts)

        def after_others(snapshot, *arguments):
            if left:
                left.pop(0)()
            return original(snapshot, *arguments)

        monkeypatch.setattr(IcebergSnapshot, "replace_files", after_others)

    return before_compaction


def test_a_landing_during_a_compaction_comes_first_and_loses_no_row(table, before_compaction):
    def land():
        assert Attempt(table, current_positions(table), {"a": 2}).commit().conflicts == {}

    before_compaction(land, land)
    assert steps(table)["compact"].state is State.DONE
    assert sorted(file.rows for file in table.snapshot().data_files()) == [2, 2, 4]
    assert_rows_are_what_positions_say(table)


def test_rows_that_are_deleted_during_a_compaction_do_not_return(table, before_compaction):
    def delete_all():
        delete(table, "sequence_number = '2'")

    before_compaction(delete_all)
    step = steps(table)["compact"]
    assert step.state is State.DONE  # of the other files
    assert rows_by_shard(table) == {"a": [1, 3, 4]}
    assert len(table.snapshot().data_files()) == 1


def test_of_two_compactions_of_the_same_files_one_replaces_them(table, before_compaction):
    before_compaction(lambda: steps(table))
    assert steps(table)["compact"].state is State.DONE
    assert len(table.snapshot().data_files()) == 1
    assert_rows_are_what_positions_say(table)


@pytest.mark.parametrize("error", [CommitFailedException("409 after a success"), OSError("lost")])
def test_a_compaction_whose_response_is_lost_is_made_once(table, monkeypatch, error):
    original = IcebergSnapshot.replace_files

    def replace_and_fail(snapshot, *arguments):
        original(snapshot, *arguments)
        raise error

    monkeypatch.setattr(IcebergSnapshot, "replace_files", replace_and_fail)
    version = table.snapshot().version
    assert steps(table)["compact"].state is State.DONE
    assert table.snapshot().version == version + 1
    assert_rows_are_what_positions_say(table)


def test_a_compaction_that_paused_during_a_vacuum_is_refused(table, before_compaction):
    def vacuum_all():
        for path in Path(table.uri).rglob("rewritten-*"):
            path.unlink()
        Attempt(table, current_positions(table), {"a": 1}).commit()

    before_compaction(vacuum_all)
    with pytest.raises(DataFileInvalid, match="nothing found"):
        steps(table)
    assert_rows_are_what_positions_say(table)


def test_rows_with_columns_of_another_program_are_not_compacted(table):
    with iceberg_of(table).update_schema() as update:
        update.add_column("colour", StringType())
    step = steps(table)["compact"]
    assert (step.state, len(table.snapshot().data_files())) == (State.LEFT, 4)
    assert "colour" in step.reason


def test_a_rollback_is_refused_after_a_compaction(table):
    restore(table, 4)
    with pytest.raises(TableRewritten):
        steps(table)
    _compact_day(table, DAY, {file.path for file in table.snapshot().data_files()})
    with pytest.raises(TableRewritten):
        steps(table)


def test_rows_expire(table):
    step = steps(table, retention_days=30)["expire"]
    assert (step.state, step.rows, step.files) == (State.DONE, 4, 4)
    assert rows_by_shard(table) == {}
    assert iceberg_of(table).current_snapshot().summary.operation.value == "delete"


def test_no_row_of_an_expired_day_is_read(table):
    """That takes longer than commits of runs leave between them."""
    for file in table.snapshot().data_files():
        Path(table.uri, file.path).write_bytes(b"unreadable")
    step = steps(table, retention_days=30)["expire"]
    assert (step.state, step.rows, step.files) == (State.DONE, 4, 4)
    assert table.snapshot().totals().rows == 0


def test_operations_of_delta_are_refused(table):
    with pytest.raises(TableUnsuitable, match="not a Delta table"):
        DeltaOperations(table).set_properties({"delta.checkpointInterval": "10"})
