"""Amendments: retroactive changes of rows, such as a replay that adds missing rows, or expiry.

They are stored apart from the positions, so that neither changes the other. Each amendment is an immutable
file. The table's log points at the newest one, as it points at the positions. An amendment is committed
through the snapshot that it was based on, so that of two at the same time, one has to start again.
"""

from __future__ import annotations

from datetime import date, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.kinesis.clock import MACHINE_CLOCK
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.positions.range_stats import RangeStats, check_rows, with_rows
from kinesis_assets.table.store.chain import Chain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import pyarrow.fs

    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.table.positions.positions import ShardPosition


AMENDMENTS_FOLDER = "_kinesis/past"

FORMAT = 2
"""The format number that this release writes. It is raised with every change that an older release must not
read. Files of format 1 do not name their stream."""


class ClearedGap(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A gap that a replay filled, identified by the same fields as in `Gap`; or the first part of one, which
    ends before another record.

    Attributes:
        until: Of a first part, the arrival of its last record. Releases that do not know the field reject the
            file.
    """

    after: Position
    next_sequence_number: str | None = None
    until: datetime | None = None

    @classmethod
    def of(cls, gap: Gap) -> ClearedGap:
        """Return the identifying fields of a gap."""
        return cls(gap.after, gap.next_sequence_number)

    def is_in(self, other: ClearedGap) -> bool:
        """Whether this is another one, or its first part."""
        numbers = self.next_sequence_number, other.next_sequence_number
        return self.after == other.after and (
            numbers[0] == numbers[1]
            or (numbers[0] is not None and numbers[1] is not None and int(numbers[0]) < int(numbers[1]))
        )


class Amendment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One amendment, with the cumulative result of all amendments up to it.

    Attributes:
        format: `FORMAT` of the writer.
        commit_id: The commit id, which names the file. The table's log points at it.
        previous: The commit id of the previous amendment; None for the first.
        batch_id: The attempt that made the commit. The rows that it added carry it.
        at: Time of the amendment (clock of the machine that made it).
        by: The Dagster run id or the person that made it.
        floor: Rows that arrived before this day (UTC) are deleted, and no replay adds them again. Cumulative.
        filled: The ranges whose missing rows this commit added, by shard id.
        rewound: Shards whose rows this commit deleted, because their positions were set back.
        lowered_from: The previous floor, if this commit lowered it. Releases that do not know the field
            reject the file.
        cleared: The gaps of the positions that replays have filled, or their first parts, by shard id.
            Cumulative.
        accepted: An operator accepted restores and overwrites up to this version of the table. Cumulative.
        arn: The stream's ARN; None in files of format 1. Each commit writes it into the file.
    """

    format: int
    commit_id: int = msgspec.field(name="token")
    previous: int | None
    batch_id: int
    at: datetime
    by: str | None = None
    floor: date | None = None
    filled: dict[str, RangeStats] = {}
    rewound: tuple[str, ...] = ()
    lowered_from: date | None = None
    cleared: dict[str, tuple[ClearedGap, ...]] = {}
    accepted: int | None = None
    arn: str | None = None

    def has_cleared(self, shard_id: str, gap: Gap) -> bool:
        """Return whether replays have filled a gap."""
        return any(ClearedGap.of(gap).is_in(cleared) for cleared in self.cleared.get(shard_id, ()))


def unfilled(amendment: Amendment | None, shard_id: str, gaps: Iterable[Gap]) -> dict[Gap, Gap]:
    """Return the part of each gap of a shard that no replay has filled. Filled gaps are left out."""
    if amendment is None:
        return {gap: gap for gap in gaps}
    return {
        gap: _rest(gap, amendment.cleared.get(shard_id, ()))
        for gap in gaps
        if not amendment.has_cleared(shard_id, gap)
    }


def ranges_to_fill(
    amendment: Amendment | None, shards: Mapping[str, ShardPosition]
) -> dict[str, dict[Gap, Gap]]:
    """Return what `unfilled` returns of the gaps that a catch-up is to fill, by shard id."""
    found = {
        shard_id: unfilled(amendment, shard_id, [gap for gap in shard.gaps if gap.to_fill])
        for shard_id, shard in shards.items()
        if shard.gaps
    }
    return {shard_id: gaps for shard_id, gaps in found.items() if gaps}


def _rest(gap: Gap, cleared: Iterable[ClearedGap]) -> Gap:
    """Return a gap without its first part, if that is filled."""
    parts = [
        (int(part.next_sequence_number), part)
        for part in cleared
        if part.after == gap.after and part.next_sequence_number is not None
    ]
    if not parts:
        return gap
    number, part = max(parts, key=lambda each: each[0])
    start = Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=str(number))
    return msgspec.structs.replace(gap, after=start, since=part.until or gap.since)


def next_amendment(
    before: Amendment | None,
    *,
    batch_id: int,
    at: datetime,
    by: str | None,
    floor: date | None = None,
    filled: Mapping[str, RangeStats] = MappingProxyType({}),
    rewound: tuple[str, ...] = (),
    cleared: dict[str, tuple[ClearedGap, ...]] | None = None,
    accepted: int | None = None,
    lowered_from: date | None = None,
    clock: Clock = MACHINE_CLOCK,
) -> Amendment:
    """Return a new amendment, which follows another one. For the arguments see also `Amendment`.

    Args:
        before: The table's newest amendment; None if it has none.
        floor: None keeps the value of *before*; the same applies to `cleared` and `accepted`.
        filled: Ranges without rows are left out.
        clock: The clock by which the table is written, for the commit id.
    """
    commit_id = new_id(clock)
    base = before or Amendment(format=FORMAT, commit_id=commit_id, previous=None, batch_id=batch_id, at=at)
    return Amendment(
        format=FORMAT,
        commit_id=commit_id,
        previous=None if before is None else before.commit_id,
        batch_id=batch_id,
        at=at,
        by=by,
        floor=base.floor if floor is None else floor,
        filled=with_rows(filled),
        rewound=rewound,
        cleared=base.cleared if cleared is None else cleared,
        accepted=base.accepted if accepted is None else accepted,
        lowered_from=lowered_from,
    )


def decode(content: bytes) -> Amendment:
    """Decode the content of an amendment file.

    Raises:
        msgspec.MsgspecError: The content is damaged, is no amendment, or has a newer format.
    """
    amendment = msgspec.json.decode(content, type=Amendment)
    if amendment.format > FORMAT:
        raise msgspec.ValidationError(
            f"its format is {amendment.format}; this release reads formats up to {FORMAT}"
        )
    check_rows(amendment.filled)
    return amendment


def amendment_chain(table: str, files: Callable[[], pyarrow.fs.FileSystem]) -> Chain[Amendment]:
    """Return the chain of the amendment files in a table's folder."""
    return Chain(table, files, amendment_path, decode)


def amendment_path(commit_id: int) -> str:
    """Return the path of an amendment file in the table's folder."""
    return f"{AMENDMENTS_FOLDER}/{commit_id}.json"
