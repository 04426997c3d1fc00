"""Verify the chain of positions files: each commit's ranges start exactly where the previous commit ended.

The checks compare each positions file with its predecessor, and the whole chain with the table's log.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.row_predicates import passed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kinesis_assets.table.log.log_entries import LogEntry
    from kinesis_assets.table.positions.positions import ShardPosition, StreamPositions
    from kinesis_assets.table.positions.range_stats import RangeStats

PROVEN_SINCE = 3
"""First format of positions files that records the rows of the commit."""

_OVERWRITTEN = "Check the rows with --rows; the store must refuse to overwrite a version"

_TRIM_HORIZON = Position(PositionKind.TRIM_HORIZON)


def chain_breaks(before: StreamPositions, now: StreamPositions) -> Iterator[tuple[str | None, str]]:
    """Find changes of the positions that the commit does not explain.

    Args:
        before: The previous positions, including the shards in the archive.
        now: The positions after the commit, likewise.

    Yields:
        A shard id, or None for the whole commit, and a sentence.
    """
    if now.generation != before.generation + 1:
        yield None, f"generation {now.generation} follows generation {before.generation}"
    if before.identity != now.identity:
        return  # another stream of the same name starts with positions of its own
    for shard_id in before.shards.keys() - now.shards.keys():
        yield shard_id, "its position is missing"
    for shard_id, shard in now.shards.items():
        if (sentence := _unexplained(before, now, shard_id, shard)) is not None:
            yield shard_id, sentence
    for shard_id in now.added.keys() - now.shards.keys():
        yield shard_id, "rows were added for a shard that has no position"


def log_mismatches(chain: Sequence[int], entries: Sequence[LogEntry], name: str) -> Iterator[str]:
    """Find differences between a chain of files and the versions of the table.

    Delta writes each version once, and the file that a version points at names the file of the version before
    as its predecessor. If the store ignores the condition of a conditional put, one commit can overwrite the
    version of another. If the log was restored from a copy, it lacks versions.

    Args:
        chain: The commit ids, from the newest to the oldest that is known.
        entries: The versions that the log still has, newest first, up to the one of the newest commit.
        name: Application id under which the versions point at the chain.

    Yields:
        A sentence for each difference.
    """
    pointed = {entry.transactions[name]: entry.version for entry in entries if name in entry.transactions}
    known = [commit_id for commit_id in chain if commit_id in pointed]
    if not known:
        if pointed and chain:
            yield f"no version in the log points at commit {chain[0]}, the newest one"
        return
    # Versions before the oldest known one may point at files that were pruned.
    oldest, members = known[-1], frozenset(chain)
    for commit_id, version in pointed.items():
        if commit_id not in members and version > pointed[oldest]:
            yield (
                f"version {version} points at commit {commit_id}, which is not an ancestor of the newest "
                f"one: another commit overwrote a version, or the log was restored from a copy. "
                f"{_OVERWRITTEN}"
            )
    for commit_id in chain[: chain.index(oldest)]:
        if commit_id not in pointed:
            yield (
                f"no version in the log points at commit {commit_id}, though one points at an older commit: "
                f"another commit overwrote its version. {_OVERWRITTEN}"
            )
    versions = [pointed[commit_id] for commit_id in known]
    if versions != sorted(versions, reverse=True):
        yield "the versions in the log point at the commits in a different order than the chain"


def _unexplained(
    before: StreamPositions, now: StreamPositions, shard_id: str, shard: ShardPosition
) -> str | None:
    """Describe a change of one shard's position that the commit does not explain; None if there is none."""
    old = before.shards.get(shard_id)
    # A newly listed shard starts at its oldest record.
    start = old.position if old is not None else _TRIM_HORIZON
    stats = now.added.get(shard_id)
    was_sought = old is not None and len(shard.seeks) > len(old.seeks)
    if old is not None and old.finished and not shard.finished and not was_sought:
        return "it was finished, but is no longer"
    if stats is not None:
        return _mismatch(stats, start, shard.position)
    if shard.position == start or was_sought or now.format < PROVEN_SINCE:
        return None
    if len(shard.gaps) > (0 if old is None else len(old.gaps)):
        return None  # a gap was accepted
    return f"it moved from {start} to {shard.position} without rows, a gap or a seek"


def _mismatch(stats: RangeStats, start: Position, through: Position) -> str | None:
    """Describe how a range does not match two positions; None if it does."""
    if stats.start != start:
        return f"its rows start after {stats.start}, but the previous commit ended at {start}"
    if stats.through != through:
        return f"its rows end at {stats.through}, but its position is {through}"
    first, last = stats.numbers
    begin, end = passed(start), passed(through)
    # The rest of an aggregated record that was read in part has the same sequence number.
    inside = begin is None or (first, math.inf) > begin
    if not inside or first > last or (end is not None and last > end[0]):
        return f"its rows have the numbers {first} to {last}, which are not between {start} and {through}"
    return None
