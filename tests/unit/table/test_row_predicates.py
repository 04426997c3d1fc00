"""The predicate for rows after a position, applied by delta-rs and compared with integers."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets.kinesis.position import Position, passed
from kinesis_assets.table.row_predicates import RowsAfter

SHARD = "it's 'one'; --"
ROWS = [(str(number), sub) for number in (1, 8, 9, 10, 11, 90, 99, 100, 101, 1000) for sub in range(3)]


@pytest.fixture
def rows(tmp_path):
    """Rows of a shard whose name needs SQL quoting, and of another, with numbers of various lengths."""
    uri = str(tmp_path / "rows")
    columns = {
        "stream": ["s"] * (len(ROWS) + 2),
        "shard_id": [SHARD] * len(ROWS) + ["other", "other"],
        "sequence_number": [number for number, _ in ROWS] + ["9", "1000"],
        "sub_sequence_number": [sub for _, sub in ROWS] + [0, 0],
    }
    write_deltalake(uri, pa.table(columns))
    return DeltaTable(uri)


@pytest.mark.parametrize(
    "position",
    [
        *(f"{kind}:{number}" for kind in ("AT", "AFTER") for number in (9, 10, 99, 100)),
        "AFTER:10:1",
        "AFTER:99:0",
        "AFTER:1:7",
    ],
)
def test_the_predicate_deletes_exactly_the_rows_after_a_position(rows, position):
    kind, _, rest = position.partition(":")
    place = passed(Position.parse(f"{kind}_SEQUENCE_NUMBER:{rest}"))
    assert place is not None
    rows.delete(RowsAfter("s", {SHARD: place}).sql)
    found = rows.to_pyarrow_table().to_pylist()
    left = {(row["sequence_number"], row["sub_sequence_number"]) for row in found if row["shard_id"] == SHARD}
    assert left == {(number, sub) for number, sub in ROWS if (int(number), sub) <= place}
    assert sum(row["shard_id"] == "other" for row in found) == 2
