"""Continuity: each commit's ranges begin exactly where the commit before had left their shards.

It is told from the table's own positions files, two that follow on each other at a time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.after import passed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.table.positions import Landed, ShardPosition, StreamPositions

PROVEN_SINCE = 3
"""Positions files of an older format do not tell what their commit brought."""

_TRIM_HORIZON = Position(PositionKind.TRIM_HORIZON)


def breaks(before: StreamPositions, now: StreamPositions) -> Iterator[tuple[str | None, str]]:
    """What one commit did to the positions before it and does not explain: a shard, or None, and a sentence.

    Args:
        before: The positions it names as those before it, with the shards in the archive.
        now: Those it left, likewise.
    """
    if now.generation != before.generation + 1:
        yield None, f"generation {now.generation} follows on generation {before.generation}"
    if before.identity != now.identity:
        return  # another stream of the same name: it begins anew
    for shard_id in before.shards.keys() - now.shards.keys():
        yield shard_id, "its position is gone"
    for shard_id, shard in now.shards.items():
        if (sentence := _unexplained(before, now, shard_id, shard)) is not None:
            yield shard_id, sentence
    for shard_id in now.landed.keys() - now.shards.keys():
        yield shard_id, "rows were brought of a shard that has no position"


def _unexplained(
    before: StreamPositions, now: StreamPositions, shard_id: str, shard: ShardPosition
) -> str | None:
    old = before.shards.get(shard_id)
    # One that was listed for the first time begins at its oldest record.
    start = old.position if old is not None else _TRIM_HORIZON
    landed = now.landed.get(shard_id)
    sought = old is not None and len(shard.seeks) > len(old.seeks)
    if old is not None and old.finished and not shard.finished and not sought:
        return "it was finished, and is not any more"
    if landed is not None:
        return _askew(landed, start, shard.position)
    if shard.position == start or sought or now.format < PROVEN_SINCE:
        return None
    if len(shard.gaps) > (0 if old is None else len(old.gaps)):
        return None  # someone chose to go on after it
    return f"it went from {start} to {shard.position} without a row, a gap or a move by hand"


def _askew(landed: Landed, start: Position, through: Position) -> str | None:
    """How a range does not lie between two positions; None if it does."""
    if landed.start != start:
        return f"its rows begin after {landed.start}, but the commit before had left it at {start}"
    if landed.through != through:
        return f"its rows end at {landed.through}, but its position is {through}"
    first, last = int(landed.first_sequence_number), int(landed.last_sequence_number)
    begin, end = passed(start), passed(through)
    # A record that was read in part, a part of an aggregate, begins again with the same number.
    inside = begin is None or (first, math.inf) > begin
    if not inside or first > last or (end is not None and last > end[0]):
        return f"its rows have the numbers {first} to {last}, which do not lie between {start} and {through}"
    return None
