"""Statistics of data files in Delta, and the readers that use them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kinesis_assets.table.raw_table import PositionedTable
from support.attempts import NOON, Attempt, current_positions, freeze_all, shards
from support.data_files import MIDNIGHT
from support.timing import WRITING


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A table of two commits: shards a and b at noon, then a at midnight."""
    table = PositionedTable(str(tmp_path_factory.mktemp("filled") / "table"), WRITING)
    Attempt(table, freeze_all(table, shards("a", "b")), {"a": 3, "b": 2}).commit()
    Attempt(table, current_positions(table), {"a": 1}, arrived=MIDNIGHT).commit()
    return table


def test_statistics_describe_the_rows_of_a_file(filled):
    actions = pa.table(DeltaTable(filled.uri).get_add_actions(flatten=True)).to_pylist()
    found = {action["partition.arrival_date"].isoformat(): action for action in actions}
    noon = found["2026-02-02"]
    assert noon["num_records"] == 5
    assert (noon["min.shard_id"], noon["max.shard_id"]) == ("a", "b")
    assert noon["min.batch_id"] == noon["max.batch_id"]
    arrivals = [noon[f"{bound}.approximate_arrival_timestamp"] for bound in ("min", "max")]
    assert arrivals == [datetime.fromtimestamp(NOON, UTC) + timedelta(milliseconds=ms) for ms in (1, 3)]
    assert {name: noon[f"null_count.{name}"] for name in ("shard_id", "batch_id")} == {
        "shard_id": 0,
        "batch_id": 0,
    }


@pytest.mark.parametrize(
    ("column", "operator", "value", "rows"),
    [
        ("shard_id", "=", "a", 4),
        ("shard_id", "=", "b", 2),
        ("shard_id", ">", "b", 0),
        ("approximate_arrival_timestamp", ">=", datetime.fromtimestamp(NOON + 0.003, UTC), 2),
        ("approximate_arrival_timestamp", "<=", datetime.fromtimestamp(NOON + 0.001, UTC), 2),
        ("approximate_arrival_timestamp", ">", datetime.fromtimestamp(NOON + 0.003, UTC), 1),
        ("arrival_date", "=", datetime.fromtimestamp(MIDNIGHT, UTC).date(), 1),
        ("batch_id", ">", 0, 6),
    ],
)
def test_filters_that_use_statistics_find_every_row(filled, column, operator, value, rows):
    found = DeltaTable(filled.uri).to_pyarrow_table(filters=[(column, operator, value)])
    assert found.num_rows == rows


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("true", 6),
        ("shard_id = 'a'", 4),
        ("approximate_arrival_timestamp >= '2026-02-02 12:00:00.003+00'", 2),
        ("approximate_arrival_timestamp <= '2026-02-02 12:00:00.001+00'", 2),
        ("approximate_arrival_timestamp > '2026-02-02 12:00:00.003+00'", 1),
        ("arrival_date = DATE '2026-02-03'", 1),
    ],
)
def test_duckdb_finds_the_same_rows(filled, duck, condition, rows):
    query = f"SELECT count(*) FROM delta_scan(?) WHERE {condition}"  # noqa: S608  # the test's own text
    assert duck.execute(query, [filled.folder.uri]).fetchone() == (rows,)
