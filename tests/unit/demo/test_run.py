"""The verification of the demonstration detects lost, duplicated and changed records."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from kinesis_assets.demo.run import prove

if TYPE_CHECKING:
    from pathlib import Path

Row = tuple[str, str, bytes]

# Both shards have the same numbers and bytes: only shard, number and bytes together identify a record.
ROWS: list[Row] = [(shard, str(number), b"%d" % number) for shard in ("a", "b") for number in range(1, 6)]
ACKNOWLEDGED = [(shard, number, hashlib.sha256(data).hexdigest()) for shard, number, data in ROWS]


@pytest.fixture
def table(tmp_path: Path):
    """Writes rows to a table, in two commits if there are several."""

    def write(rows: list[Row]) -> Path:
        for part in (rows[:4], rows[4:]):
            columns = zip(*part, strict=True)
            names = ("shard_id", "sequence_number", "data")
            write_deltalake(
                tmp_path / "table", pa.table(dict(zip(names, columns, strict=True))), mode="append"
            )
        return tmp_path / "table"

    return write


def test_it_accepts_exactly_the_acknowledged_records(table):
    proof = prove(table(ROWS[::-1]), ACKNOWLEDGED)
    assert proof.holds
    assert (proof.acknowledged, proof.rows, proof.exact) == (10, 10, 10)
    assert proof.rows_by_shard == {"a": 5, "b": 5}


@pytest.mark.parametrize(
    ("rows", "counts"),
    [
        (ROWS[:-1], (10, 9, 9)),
        ([*ROWS, ROWS[2]], (10, 11, 9)),
        ([*ROWS[:-1], ("b", "5", b"6")], (10, 10, 9)),
        ([*ROWS, ("b", "6", b"6")], (10, 11, 10)),
        ([*ROWS[:-1], ROWS[0]], (10, 10, 8)),
        ([*ROWS[:-1], ("c", "5", b"5")], (10, 10, 9)),
        ([*ROWS[:-1], ("b", "55", b"5")], (10, 10, 9)),
        ([*ROWS, ("b", "5", b"other")], (10, 11, 10)),
    ],
    ids=[
        "lost",
        "doubled",
        "changed",
        "never put",
        "lost and another doubled",
        "in another shard",
        "under another number",
        "there and also changed",
    ],
)
def test_it_rejects_any_other_rows(rows, counts, table):
    proof = prove(table(rows), ACKNOWLEDGED)
    assert not proof.holds
    assert (proof.acknowledged, proof.rows, proof.exact) == counts
