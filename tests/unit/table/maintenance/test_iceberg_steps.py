"""The maintenance of an Iceberg table: vacuum and expiry of rows, and compaction that is left to others."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from kinesis_assets.errors import TableUnsuitable
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.maintenance.steps import DEFAULT_LIMITS, State
from kinesis_assets.table.policy import VACUUM_RETENTION
from support.attempts import (
    Attempt,
    assert_rows_are_what_positions_say,
    current_positions,
    current_summary,
    freeze_all,
    rows_by_shard,
    shards,
)
from support.formats import iceberg_of, table_of
from support.timing import WRITING


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


def test_vacuum_keeps_young_files(table):
    Path(table.uri, "arrival_date=2026-02-02/part-lost.parquet").write_bytes(b"x")
    assert "vacuum" not in steps(table)


def test_compaction_is_left_to_other_engines(table):
    step = steps(table)["compact"]
    assert (step.of, step.state, step.files) == ("2026-02-02", State.LEFT, 4)
    assert "rewrite_data_files" in step.reason


def test_rows_expire(table):
    step = steps(table, retention_days=30)["expire"]
    assert (step.state, step.rows, step.files) == (State.DONE, 4, 4)
    assert rows_by_shard(table) == {}
    assert iceberg_of(table).current_snapshot().summary.operation.value == "delete"


def test_operations_of_delta_are_refused(table):
    with pytest.raises(TableUnsuitable, match="not a Delta table"):
        DeltaOperations(table).set_properties({"delta.checkpointInterval": "10"})
