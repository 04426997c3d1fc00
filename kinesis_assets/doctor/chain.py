"""Continuity: each commit's ranges begin exactly where the commit before had left their shards.

It is told from the table's own positions files, two that follow on each other at a time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.row_predicates import passed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kinesis_assets.table.log_entries import LogEntry
    from kinesis_assets.table.positions import Landed, ShardPosition, StreamPositions

PROVEN_SINCE = 3
"""Positions files of an older format do not tell what their commit brought."""

_OVERWRITTEN = "Check the rows with --rows; the store must refuse to overwrite a version"

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


def unlike_the_log(chain: Sequence[int], entries: Sequence[LogEntry], name: str) -> Iterator[str]:
    """Where a chain of tokens is not what the versions of the table point at, as sentences.

    Delta writes a version once, and each commit points at a file whose predecessor the version before it
    points at. A store that ignores the condition of a put lets one commit overwrite another's version, and a
    log that was copied back lacks versions.

    Args:
        chain: The tokens from the newest back to the oldest that is known.
        entries: The versions that the log still has, newest first, up to the one that the chain begins at.
        name: The application id under which they point at the chain.
    """
    pointed = {entry.transactions[name]: entry.version for entry in entries if name in entry.transactions}
    known = [token for token in chain if token in pointed]
    if not known:
        if pointed and chain:
            yield f"no version in the log points at commit {chain[0]}, the newest one"
        return
    # Versions before the oldest known one may point at files that were pruned.
    oldest, members = known[-1], frozenset(chain)
    for token, version in pointed.items():
        if token not in members and version > pointed[oldest]:
            yield (
                f"version {version} points at commit {token}, which is not among those before the present "
                f"one: another commit overwrote a version, or the log was copied back. {_OVERWRITTEN}"
            )
    for token in chain[: chain.index(oldest)]:
        if token not in pointed:
            yield (
                f"no version in the log points at commit {token}, though an older one is in it: another "
                f"commit overwrote its version. {_OVERWRITTEN}"
            )
    versions = [pointed[token] for token in known]
    if versions != sorted(versions, reverse=True):
        yield "the versions in the log point at the commits in another order than that of the positions files"


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
