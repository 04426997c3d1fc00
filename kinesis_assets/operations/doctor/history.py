"""The history of a table's commits, its verification, and the rows that the commits should have left.

Positions files and amendments form two chains, in which each file names its predecessor. Each positions file
is compared with its predecessor, where the commit's ranges must start exactly, and both chains with the log.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.kinesis.position import Position, PositionKind, passed
from kinesis_assets.operations.doctor.finding import Finding, Level
from kinesis_assets.table.commit_ids import time_of_id
from kinesis_assets.table.maintenance.pruning import CHAIN_KEPT, CHAIN_NEEDED
from kinesis_assets.table.positions.commit_link import CommitLink

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date

    from kinesis_assets.kinesis.position import PassedRecord
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import ShardPosition, StreamPositions
    from kinesis_assets.table.positions.range_stats import RangeStats
    from kinesis_assets.table.snapshot import TableSnapshot
    from kinesis_assets.table.stored_table import LogEntry


@dataclass(frozen=True, slots=True)
class CommittedRows:
    """The rows of one shard that a commit added.

    Attributes:
        stats: Range, count and checksum of the rows, as recorded with the commit.
        arrived_from: No row arrived before this day (UTC); None if unknown.
        arrived_through: The last row arrived on this day (UTC); None if unknown.
        filled: A replay filled the rows in behind the position: they may be rows that another batch lacks.
    """

    commit_id: int
    batch_id: int
    shard_id: str
    stats: RangeStats
    arrived_from: date | None = None
    arrived_through: date | None = None
    filled: bool = False


@dataclass(frozen=True, slots=True)
class Rewind:
    """A seek that moved a shard's position back and removed its rows.

    Attributes:
        after: The rows after this were removed; None for all rows.
    """

    commit_id: int
    shard_id: str
    after: PassedRecord | None
    rows: int


@dataclass(slots=True)
class ExpectedRows:
    """Everything that the commits record about rows.

    Attributes:
        committed: The rows that each commit added, by commit and shard.
        rewinds: The rows that seeks removed.
        floor: Rows that arrived before this day (UTC) were deleted; None if none were.
        unproven: Batch ids of commits by older versions, which did not record the rows that they added.
        since: Nothing is known about commits and batches with a smaller id; 0 if the chains are complete.
        lowered: Id of each commit that lowered the floor, with the floor before it.
    """

    committed: list[CommittedRows] = field(default_factory=list)
    rewinds: list[Rewind] = field(default_factory=list)
    floor: date | None = None
    unproven: set[int] = field(default_factory=set)
    since: int = 0
    lowered: list[tuple[int, date]] = field(default_factory=list)

    def floor_since(self, commit_id: int) -> date | None:
        """Return the highest floor since a commit: its rows that arrived before may have been deleted."""
        floors = [self.floor, *(floor for at, floor in self.lowered if at > commit_id)]
        return max((floor for floor in floors if floor is not None), default=None)


@dataclass(slots=True)
class History:
    """The commits of a table, as far as its chains can be read.

    Attributes:
        now: The time of this machine's clock.
        commits: The commits that moved positions, newest first.
        amendments: The amendments, newest first.
        rows: What they record about rows.
    """

    positions: StreamPositions
    amendment: Amendment | None
    now: datetime
    commits: list[CommitLink] = field(default_factory=list)
    amendments: list[CommitLink] = field(default_factory=list)
    rows: ExpectedRows = field(init=False)

    def __post_init__(self) -> None:
        self.rows = ExpectedRows(floor=None if self.amendment is None else self.amendment.floor)


def walk_positions(snapshot: TableSnapshot, history: History) -> Iterator[Finding]:
    """Read the chain of positions files from the newest to the oldest that was not pruned.

    Args:
        history: Receives the commits.
    """
    current = snapshot.with_all_archived(history.positions)
    while True:
        try:
            before = None
            if current.previous is not None:
                before = snapshot.with_all_archived(snapshot.table.chain.positions_at(current.previous))
        except PositionsUnreadable as error:
            yield from _pruned(error, current.previous or 0, history, current.commit_id)
            before = None
        history.commits.append(CommitLink.of_positions(current))
        _add_rows(history, before, current)
        if current.adopted:  # no commit is known for the rows before an adoption
            history.rows.since = max(history.rows.since, current.commit_id)
        if before is None:
            return
        for shard_id, sentence in chain_breaks(before, current):
            yield Finding(
                "continuity", Level.PROBLEM, f"generation {current.generation}: {sentence}", shard_id
            )
        current = before


def _add_rows(history: History, before: StreamPositions | None, current: StreamPositions) -> None:
    """Record the rows that one commit added, and those that its seeks removed."""
    if current.format < PROVEN_SINCE:
        history.rows.unproven.add(current.batch_id)
    shards = {} if before is None else before.shards
    for shard_id, stats in current.added.items():
        # No record can have arrived before the stream was created.
        arrived = (shards[shard_id].last_arrival if shard_id in shards else None) or current.identity.created
        through = current.shards[shard_id].last_arrival if shard_id in current.shards else None
        history.rows.committed.append(
            CommittedRows(
                commit_id=current.commit_id,
                batch_id=current.batch_id,
                shard_id=shard_id,
                stats=stats,
                arrived_from=arrived.date(),
                arrived_through=None if through is None else through.date(),
            )
        )
    for shard_id, shard in current.shards.items():
        known = len(shards[shard_id].seeks) if shard_id in shards else len(shard.seeks)
        history.rows.rewinds += [
            Rewind(current.commit_id, shard_id, passed(seek.after), seek.rows_removed)
            for seek in shard.seeks[known:]
            if seek.rows_removed
        ]


def walk_amendments(snapshot: TableSnapshot, history: History) -> Iterator[Finding]:
    """Read the chain of amendment files from the newest to the oldest that was not pruned.

    Args:
        history: Receives the amendments.
    """
    current = history.amendment
    while current is not None:
        history.amendments.append(CommitLink.of_amendment(current))
        # Rows that the table's retention deleted are never filled in again.
        history.rows.committed += [
            CommittedRows(
                current.commit_id, current.batch_id, shard_id, stats, arrived_from=current.floor, filled=True
            )
            for shard_id, stats in current.filled.items()
        ]
        try:
            before = None if current.previous is None else snapshot.table.amendments.at(current.previous)
        except PositionsUnreadable as error:
            yield from _pruned(error, current.previous or 0, history, current.commit_id)
            return
        if current.lowered_from is not None:
            history.rows.lowered.append((current.commit_id, current.lowered_from))
            yield Finding(
                "continuity",
                Level.INFO,
                f"the floor was lowered from {current.lowered_from} to {current.floor} by "
                f"{current.by or 'someone'} at {current.at:%Y-%m-%dT%H:%M:%SZ}",
            )
        floor = None if before is None else before.floor
        went_back = floor is not None and (current.floor is None or current.floor < floor)
        if went_back and floor != current.lowered_from:
            sentence = f"the floor went back from {floor} to {current.floor}"
            yield Finding("continuity", Level.PROBLEM, sentence)
        current = before


def _pruned(error: PositionsUnreadable, commit_id: int, history: History, oldest: int) -> Iterator[Finding]:
    """Report a file that cannot be read, unless maintenance can have pruned it.

    Args:
        history: Receives the id from which commits are known.
        oldest: Id of the oldest file of the chain that can be read.
    """
    history.rows.since = max(history.rows.since, oldest)
    age = history.now - datetime.fromtimestamp(time_of_id(commit_id), UTC)
    if age >= CHAIN_KEPT:
        return
    if age < CHAIN_NEEDED:
        yield Finding("continuity", Level.PROBLEM, f"{error}; it is too recent to have been pruned")
    else:
        sentence = (
            f"{error}. Maintenance prunes it early if there are many commits; older ones are not checked"
        )
        yield Finding("continuity", Level.INFO, sentence)


PROVEN_SINCE = 3
"""First format of positions files that records the rows of the commit."""

_OVERWRITTEN = "Check the rows with --rows; the store must refuse to overwrite a version"


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
    start = old.position if old is not None else Position(PositionKind.TRIM_HORIZON)
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
