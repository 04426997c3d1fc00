"""Check the invariants of a table after each step: atomic, exactly once, forward only, parents first."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from chaos.property.expected_rows import BEGINNING, DAMAGED, ExpectedRows, Row, place_of
from kinesis_assets.errors import TableMissing
from kinesis_assets.kinesis.records.aggregation import OUTSIDE_HASH_RANGE, is_damaged
from support.formats import restore, rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.positions.positions import ShardPosition, StreamPositions
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.table.snapshot import TableSnapshot

_COLUMNS = ["shard_id", "sequence_number", "sub_sequence_number", "partition_key", "data", "error"]


class InvariantChecker:
    """Checks every commit since the last check.

    Attributes:
        shards: The positions of the shards.
        batches: The rows in the table by batch id.
        since: The time by shard from which records are expected, if not from the beginning.
        is_rewritten: Whether a restore changed the rows and was not accepted yet.
    """

    def __init__(self, table: PositionedTable, identity: StreamIdentity, expected: ExpectedRows) -> None:
        self.shards: Mapping[str, ShardPosition] = {}
        self.batches: dict[int, Counter[Row]] = {}
        self.since: dict[str, float] = {}
        self.is_rewritten = False
        self._table = table
        self._identity = identity
        self._expected = expected
        self._commit_id: int | None = None
        self._files: set[str] = set()

    def check(self) -> None:
        """Assert that each new commit contains what its positions have passed, and nothing else."""
        try:
            snapshot = self._table.snapshot()
        except TableMissing:
            assert self._commit_id is None, "the table is gone"
            return
        new_rows = self._new_rows(snapshot)
        for positions in self._new_positions(snapshot):
            assert not self.is_rewritten, "went on from the positions of a restored table"
            if self._commit_id is None:
                self.since = {
                    shard_id: shard.position.timestamp.timestamp()
                    for shard_id, shard in positions.shards.items()
                    if shard.position.timestamp is not None
                }
            assert new_rows.pop(positions.batch_id, Counter()) == self._passed(positions.shards)
            self._commit_id, self.shards = positions.commit_id, positions.shards
        assert not new_rows, "rows of a batch that no positions file names"

    def restore(self, back: int) -> None:
        """Restore the table to an earlier version, unless it has no positions yet."""
        if not self.is_rewritten:
            self.check()
        if self._commit_id is None:
            return
        before = self._table.snapshot()
        restore(self._table, max(0, before.version - back))
        after = self._table.snapshot()
        files = _files_of(after)
        # A rollback of an Iceberg table is refused whatever rows it reverts.
        self.is_rewritten |= files != self._files or bool(after.rewrites_between(before.version))
        self._files = files

    def recovered(self) -> None:
        """Assert that a restored table contains each row that its positions have passed exactly once."""
        wanted: Counter[Row] = Counter()
        for shard_id, rows in self._expected.by_shard(self.since).items():
            end = place_of(self.shards.get(shard_id))
            wanted.update(row for row in rows if row.place <= end)
        assert self.rows() == wanted
        self._files = _files_of(self._table.snapshot())
        self.is_rewritten = False

    def rows(self) -> Counter[Row]:
        """Return the rows as a reader of the whole table gets them."""
        return Counter(self._rows(rows_of(self._table, _COLUMNS)))

    def _new_positions(self, snapshot: TableSnapshot) -> list[StreamPositions]:
        positions = snapshot.positions(self._identity)
        found: list[StreamPositions] = []
        while positions is not None and positions.commit_id != self._commit_id:
            found.append(snapshot.with_all_archived(positions))
            if positions.previous is None:
                assert self._commit_id is None, "the positions before are forgotten"
                break
            positions = snapshot.table.chain.positions_at(positions.previous)
        return found[::-1]

    def _new_rows(self, snapshot: TableSnapshot) -> dict[int, Counter[Row]]:
        files = _files_of(snapshot)
        assert files >= self._files, "data files are gone"
        new: dict[int, Counter[Row]] = {}
        for file in files - self._files:
            content = pq.read_table(Path(self._table.uri, file), partitioning=None)
            for row, batch_id in zip(self._rows(content), content["batch_id"].to_pylist(), strict=True):
                new.setdefault(batch_id, Counter())[row] += 1
        self._files = files
        for batch_id, rows in new.items():
            assert batch_id not in self.batches, "a batch was committed twice"
            self.batches[batch_id] = rows
        return dict(new)

    def _passed(self, shards: Mapping[str, ShardPosition]) -> Counter[Row]:
        """Return the rows between the previous positions and those of a commit."""
        assert shards.keys() >= self.shards.keys(), "shards are forgotten"
        passed: Counter[Row] = Counter()
        wanted = self._expected.by_shard(self.since)
        for shard_id, shard in shards.items():
            before = self.shards.get(shard_id)
            begin, end = place_of(before), place_of(shard)
            assert begin <= end, f"{shard_id} went back"
            if before is not None and before.finished:
                assert (before.position, True) == (shard.position, shard.finished), "moved after its end"
            if shard.finished or end != BEGINNING:
                unfinished = [parent for parent in shard.parents if not shards[parent].finished]
                assert not unfinished, f"{shard_id} was read before {unfinished}"
            rows = wanted.get(shard_id, [])
            passed.update(row for row in rows if begin < row.place <= end)
            assert not shard.finished or all(row.place <= end for row in rows), f"{shard_id} is not finished"
        return passed

    def _rows(self, table: pa.Table) -> list[Row]:
        columns: list[list[Any]] = [table[name].to_pylist() for name in _COLUMNS]
        rows: list[Row] = []
        for shard_id, number, sub, key, data, error in zip(*columns, strict=True):
            row = Row(shard_id, int(number), sub, key, data, DAMAGED if is_damaged(error) else None)
            if error == OUTSIDE_HASH_RANGE:
                assert (shard_id, row.place) in self._expected.may_be_marked
            rows.append(row)
        return rows


def _files_of(snapshot: TableSnapshot) -> set[str]:
    return {file.path for file in snapshot.data_files()}
