"""Compaction: which files it compacts, and what it writes."""

from __future__ import annotations

from datetime import timedelta

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kinesis_assets.table.data_file import STATISTICS
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
from kinesis_assets.table.maintenance.steps import DEFAULT_LIMITS, MaintenanceLimits
from support.amendments import new_amendment
from support.attempts import STREAM, Attempt, assert_rows_are_what_positions_say, current_positions
from support.conditions import Condition
from support.maintained_table import ARRIVED, steps_of
from support.table_folder import DATA_FILES, files_of, folder_of

pytestmark = pytest.mark.slow

SAME_DAY = ARRIVED + timedelta(hours=1)


def compact_all(table):
    DeltaOperations(table).compact("2026-02-02", 100)


def delete_a_row(table):
    """Delete a row, as a seek does; the remaining rows of its file are written again."""
    predicate = Condition("shard_id = 'a' AND sequence_number = '1'")
    table.snapshot().remove(predicate, identity=STREAM, amendment=new_amendment())


@pytest.mark.parametrize("rewrite", [compact_all, delete_a_row])
def test_a_rewritten_file_has_the_encoding_and_statistics_of_ingested_files(busy, rewrite):
    before = files_of(busy, DATA_FILES)
    rewrite(busy)
    (written,) = files_of(busy, DATA_FILES) - before
    footer = pq.read_metadata(folder_of(busy) / written).row_group(0)
    columns = {column.path_in_schema: column for column in map(footer.column, range(footer.num_columns))}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    assert {name for name, column in columns.items() if column.is_stats_set} == {*STATISTICS}
    assert "RLE_DICTIONARY" not in columns["data"].encodings


def test_a_compacted_file_has_exact_statistics(busy):
    rows = DeltaTable(busy.folder.uri).to_pyarrow_table(columns=STATISTICS)
    compact_all(busy)
    (action,) = DeltaTable(busy.folder.uri).get_add_actions(flatten=True).to_struct_array().to_pylist()
    for name in STATISTICS:
        found = rows[name].to_pylist()
        assert (action[f"min.{name}"], action[f"max.{name}"]) == (min(found), max(found))
    assert not [name for name in action if name.startswith(("min.", "max.")) and name[4:] not in STATISTICS]


def test_the_current_day_is_not_compacted(busy):
    assert {step for step, _ in steps_of(busy, SAME_DAY)} == {"checkpoint"}


def test_the_current_day_is_compacted_if_it_has_very_many_small_files(busy):
    small_files = 2 * DEFAULT_LIMITS.small_files
    steps = steps_of(busy, SAME_DAY, limits=MaintenanceLimits(small_files_today=small_files))
    assert steps["compact", SAME_DAY.date().isoformat()].files == small_files
    assert len(busy.snapshot().data_files()) == 1
    assert_rows_are_what_positions_say(busy)


def test_compaction_is_not_planned_for_an_expiring_day(busy):
    planned = steps_of(busy, retention_days=1, dry_run=True)
    assert [step for step, _ in planned] == ["expire"]


def test_few_small_files_are_not_compacted(empty):
    for _ in range(DEFAULT_LIMITS.small_files - 1):
        Attempt(empty, current_positions(empty), {"a": 1}).commit()
    assert {step for step, _ in steps_of(empty)} == {"checkpoint"}
