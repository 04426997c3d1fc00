"""All positions of a stream, as one immutable file beside the data."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import PositionConflict
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.shards import unfinished_parents
from kinesis_assets.kinesis.stream import StreamIdentity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kinesis_assets.kinesis.shards import Shard

FORMAT = 1
"""Raised with any change that an older version must not read."""


class ShardPosition(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """How far one shard is in the table, and where it stands in the lineage.

    Attributes:
        parents: The shards it was split or merged from.
        hash_range: First and last hash key, both inclusive, decimal text.
        position: Where it is read from next. A record is in the table if and only if this has passed it.
        finished: Read to its end; never read again.
        tip_time: When it was last read to its tip (service's clock).
        last_arrival: Arrival of the last record committed.
    """

    parents: tuple[str, ...]
    hash_range: tuple[str, str]
    position: Position
    finished: bool = False
    tip_time: datetime | None = None
    last_arrival: datetime | None = None

    def same_place(self, other: ShardPosition) -> bool:
        """Whether both stand at the same record; when the tip was seen does not matter."""
        return self.position == other.position and self.finished == other.finished


class StreamPositions(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The positions of every shard ever listed of one stream, as one commit left them.

    Attributes:
        format: `FORMAT` of the writer.
        identity: Which stream.
        token: Names this file; the table's log points at it.
        previous: The token before it; None for the first.
        generation: Commits since the first, which is 0.
        batch_id: The attempt that made the commit.
        shards: By shard id.
    """

    format: int
    identity: StreamIdentity
    token: int
    previous: int | None
    generation: int
    batch_id: int
    shards: dict[str, ShardPosition]

    @property
    def finished(self) -> frozenset[str]:
        """The shards that were read to their end."""
        return frozenset(shard_id for shard_id, shard in self.shards.items() if shard.finished)

    def waits_for(self, shard_id: str) -> tuple[str, ...]:
        """The parents of a shard that must be read to their end before it."""
        parents = self.shards[shard_id].parents
        return unfinished_parents(parents, known=self.shards, finished=self.finished)

    def with_listed(self, listed: Iterable[Shard]) -> StreamPositions:
        """With every listed shard that is new, at TRIM_HORIZON: nothing of a later shard was ever seen."""
        new = initial_positions(
            (shard for shard in listed if shard.shard_id not in self.shards),
            Position(PositionKind.TRIM_HORIZON),
        )
        return msgspec.structs.replace(self, shards=self.shards | new)


def initial_positions(shards: Iterable[Shard], start: Position) -> dict[str, ShardPosition]:
    """Unread shards, all to be read from the same start."""
    return {
        shard.shard_id: ShardPosition(parents=shard.parents, hash_range=shard.hash_range, position=start)
        for shard in shards
    }


def merge(
    current: StreamPositions, expected: StreamPositions, moved: Mapping[str, ShardPosition]
) -> tuple[dict[str, ShardPosition], dict[str, PositionConflict]]:
    """Put an attempt's shards into the positions that stand now.

    Args:
        current: What stands in the table, with every listed shard.
        expected: What the attempt began from.
        moved: The attempt's shards as it leaves them.

    Returns:
        The merged positions of all shards; and the conflicts: the attempt's shards that are no longer where
        it began, and those whose parents' end is, for that reason, not in the merged positions.
    """
    conflicts = {
        shard_id: PositionConflict(
            shard_id,
            f"expected at {expected.shards[shard_id].position}, but batch {current.batch_id} or one before "
            f"it left it at {current.shards[shard_id].position}; this run added none of its rows. "
            "Nothing to do: the next run goes on from there",
        )
        for shard_id in moved
        if not current.shards[shard_id].same_place(expected.shards[shard_id])
    }
    merged = dict(current.shards)
    pending = {shard_id: position for shard_id, position in moved.items() if shard_id not in conflicts}
    while ready := {
        shard_id: position
        for shard_id, position in pending.items()
        if not unfinished_parents(
            position.parents,
            known=merged,
            finished={parent for parent in position.parents if parent in merged and merged[parent].finished},
        )
    }:
        merged |= {shard_id: _newer_tip(position, merged[shard_id]) for shard_id, position in ready.items()}
        pending = {shard_id: position for shard_id, position in pending.items() if shard_id not in ready}
    for shard_id, position in pending.items():
        conflicts[shard_id] = PositionConflict(
            shard_id,
            f"its parent ({', '.join(position.parents)}) was moved by another run before this one could "
            "record its end; this run added none of its rows. Nothing to do: the next run reads it",
        )
    return merged, conflicts


def _newer_tip(moved: ShardPosition, current: ShardPosition) -> ShardPosition:
    """Another run may have seen the tip later without moving the position."""
    seen = [time for time in (moved.tip_time, current.tip_time) if time is not None]
    return msgspec.structs.replace(moved, tip_time=max(seen, default=None))


def encode(positions: StreamPositions) -> bytes:
    """The file's content."""
    return msgspec.json.format(msgspec.json.encode(positions), indent=1)


def decode(content: bytes) -> StreamPositions:
    """Read what `encode` wrote.

    Raises:
        msgspec.MsgspecError: It is something else, or of a newer format.
    """
    header = msgspec.json.decode(content, type=_Header)
    if header.format != FORMAT:
        raise msgspec.ValidationError(f"format {header.format}, and this version reads {FORMAT}")
    return msgspec.json.decode(content, type=StreamPositions)


class _Header(msgspec.Struct):
    format: int
