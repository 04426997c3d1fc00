"""The position of a consumer in a source table: how much of the source it has consumed."""

from __future__ import annotations

from datetime import date  # msgspec evaluates the annotations
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec

from kinesis_assets.errors import InvalidInput
from kinesis_assets.table.row_predicates import are_later, later, sql_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import pyarrow as pa

    from kinesis_assets.kinesis.position import PassedRecord

RECORD_COLUMNS = ("sequence_number", "sub_sequence_number", "shard_id")
"""The columns that identify a record of a raw table, in the order by which those of a commit are ordered."""


class Cursor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A position in a source table.

    The commits of a source form two chains: the commits that added new rows, and the amendments, which
    changed rows behind them. Everything up to the last commit of each chain is consumed, inclusive.

    The history of a source, the rows that it has when its consumer starts, is consumed in the order of the
    batch ids. Until that is done, only the rows up to a batch id are consumed.

    Attributes:
        source: The id of the source table, from its metadata.
        commit: The id of the last commit; None if the source had none.
        amendment: The id of the last amendment; None if the source had none.
        history: The last batch id that is consumed, while the history is being consumed; None afterwards.
        unread: The first arrival date of the rows of the history that are left; None if it is unknown.
    """

    source: str
    commit: int | None = None
    amendment: int | None = None
    history: int | None = None
    unread: date | None = None

    def __str__(self) -> str:
        """The cursor as JSON text, which `parse` reads."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the cursor of a text.

        Raises:
            InvalidInput: The text is not a cursor.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise InvalidInput(
                f"invalid cursor {text[:80]!r}: {error}; use the text of a cursor, unchanged"
            ) from None


class BatchRecords(NamedTuple):
    """Records of a shard that a batch of a raw table has.

    Attributes:
        after: The place before them, as `table.row_predicates.passed` returns it.
        through: The place after them, likewise.
    """

    batch_id: int
    shard_id: str
    after: PassedRecord
    through: PassedRecord

    @property
    def condition(self) -> str:
        """The records as a condition in SQL."""
        return (
            f"batch_id = {self.batch_id} AND shard_id = {sql_text(self.shard_id)} "
            f"AND {later(*self.after)} AND NOT {later(*self.through)}"
        )

    def __str__(self) -> str:
        first = self.after[0] if self.after[1] < 0 else f"after {self.after[0]}"
        return f"{self.shard_id} ({first} to {self.through[0]})"


def are_among(rows: pa.RecordBatch, records: Iterable[BatchRecords]) -> pa.BooleanArray:
    """Return for each row whether it is one of some records, from its batch id and `RECORD_COLUMNS`."""
    import pyarrow.compute as pc  # noqa: PLC0415  # definitions load no Arrow

    batch_ids, shard_ids = rows["batch_id"], rows["shard_id"]
    found = pc.equal(batch_ids, -1)
    for each in records:
        same = pc.and_(pc.equal(batch_ids, each.batch_id), pc.equal(shard_ids, each.shard_id))
        is_within = pc.and_not(are_later(rows, *each.after), are_later(rows, *each.through))
        found = pc.or_(found, pc.and_(same, is_within))
    return found


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The batches of a source whose rows are selected. All conditions apply.

    Attributes:
        only: The batch ids; None for all.
        without: Batch ids that are left out.
        above: Batch ids up to this one are left out, inclusive.
        through: The greatest batch id, inclusive; None for no limit.
        without_records: Records of these batches that are left out, of a raw table.
    """

    only: frozenset[int] | None = None
    without: frozenset[int] = frozenset()
    above: int = -1
    through: int | None = None
    without_records: tuple[BatchRecords, ...] = ()

    def may_include(self, first: int | None, last: int | None) -> bool:
        """Return whether a file may have selected rows.

        Args:
            first: The smallest batch id in the file; None if it is unknown.
            last: The greatest batch id in the file; None if it is unknown.
        """
        if last is not None and last <= self.above:
            return False
        if first is not None and self.through is not None and first > self.through:
            return False
        if first is None or last is None:
            return self.only != frozenset()
        if first == last:
            return self.includes(first)
        return self.only is None or any(first <= batch_id <= last for batch_id in self.only)

    def includes_all(self, first: int | None, last: int | None) -> bool:
        """Return whether all rows of a file are selected for certain. The arguments are as above."""
        if first is None or last is None or self.without_records:
            return False
        if first == last:
            return self.includes(first)
        return (
            self.only is None
            and first > self.above
            and (self.through is None or last <= self.through)
            and not any(first <= batch_id <= last for batch_id in self.without)
        )

    def includes(self, batch_id: int) -> bool:
        """Return whether the rows of a batch are selected."""
        return (
            (self.only is None or batch_id in self.only)
            and batch_id not in self.without
            and batch_id > self.above
            and (self.through is None or batch_id <= self.through)
        )

    def condition(self, column: str) -> str:
        """Return the selection as a condition in SQL."""
        parts = [f"{column} > {self.above}"] if self.above >= 0 else []
        if self.through is not None:
            parts.append(f"{column} <= {self.through}")
        if self.only is not None:
            parts.append(f"{column} IN ({_listed(self.only)})" if self.only else "FALSE")
        if self.without:
            parts.append(f"{column} NOT IN ({_listed(self.without)})")
        parts += [f"NOT ({records.condition})" for records in self.without_records]
        return " AND ".join(parts) or "TRUE"


def _listed(batch_ids: Collection[int]) -> str:
    return ", ".join(map(str, sorted(batch_ids)))
