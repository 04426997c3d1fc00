"""The history of a table's commits, read from its positions files and amendment files.

The two kinds of files form two chains. Each file names its predecessor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kinesis_assets.doctor.chain import PROVEN_SINCE, chain_breaks
from kinesis_assets.doctor.expected_rows import CommittedRows, Rewind
from kinesis_assets.doctor.finding import Finding, Level
from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.table.commit_ids import time_of_id
from kinesis_assets.table.maintenance.superseded import CHAIN_KEPT, CHAIN_NEEDED
from kinesis_assets.table.positions.commit_link import CommitLink
from kinesis_assets.table.row_predicates import passed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.snapshot import TableSnapshot


@dataclass(slots=True)
class History:
    """The commits of a table, as far as its chains can be read.

    Attributes:
        positions: The newest positions.
        amendment: The newest amendment; None if there is none.
        now: The time of this machine's clock.
        commits: The commits that moved positions, newest first.
        amendments: The amendments, newest first.
        committed: The rows that they added.
        rewinds: The rows that a seek removed.
        unproven: Batch ids of commits by older versions, which did not record the rows that they added.
        lowered: Id of each commit that lowered the floor, with the floor before it.
        since: Nothing is known about commits before this id; 0 if the chains are complete.
    """

    positions: StreamPositions
    amendment: Amendment | None
    now: datetime
    commits: list[CommitLink] = field(default_factory=list)
    amendments: list[CommitLink] = field(default_factory=list)
    committed: list[CommittedRows] = field(default_factory=list)
    rewinds: list[Rewind] = field(default_factory=list)
    unproven: set[int] = field(default_factory=set)
    lowered: list[tuple[int, date]] = field(default_factory=list)
    since: int = 0


def walk_positions(snapshot: TableSnapshot, history: History) -> Iterator[Finding]:
    """Read the chain of positions files from the newest to the oldest that was not pruned.

    Args:
        snapshot: The table.
        history: Receives the commits.
    """
    current = snapshot.with_all_archived(history.positions)
    while True:
        try:
            before = None
            if current.previous is not None:
                before = snapshot.with_all_archived(snapshot.positions_at(current.previous))
        except PositionsUnreadable as error:
            yield from _pruned(error, current.previous or 0, history, current.commit_id)
            before = None
        history.commits.append(CommitLink.of_positions(current))
        _add_rows(history, before, current)
        if current.adopted:  # no commit is known for the rows before an adoption
            history.since = max(history.since, current.commit_id)
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
        history.unproven.add(current.batch_id)
    shards = {} if before is None else before.shards
    for shard_id, stats in current.added.items():
        # No record can have arrived before the stream was created.
        arrived = (shards[shard_id].last_arrival if shard_id in shards else None) or current.identity.created
        through = current.shards[shard_id].last_arrival if shard_id in current.shards else None
        history.committed.append(
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
        history.rewinds += [
            Rewind(current.commit_id, shard_id, passed(seek.after), seek.rows_removed)
            for seek in shard.seeks[known:]
            if seek.rows_removed
        ]


def walk_amendments(snapshot: TableSnapshot, history: History) -> Iterator[Finding]:
    """Read the chain of amendment files from the newest to the oldest that was not pruned.

    Args:
        snapshot: The table.
        history: Receives the amendments.
    """
    current = history.amendment
    while current is not None:
        history.amendments.append(CommitLink.of_amendment(current))
        # Rows that the table's retention deleted are never filled in again.
        history.committed += [
            CommittedRows(
                current.commit_id, current.batch_id, shard_id, stats, arrived_from=current.floor, filled=True
            )
            for shard_id, stats in current.filled.items()
        ]
        try:
            before = None if current.previous is None else snapshot.amendment_at(current.previous)
        except PositionsUnreadable as error:
            yield from _pruned(error, current.previous or 0, history, current.commit_id)
            return
        if current.lowered_from is not None:
            history.lowered.append((current.commit_id, current.lowered_from))
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
        error: The error of reading it.
        commit_id: Id of the file.
        history: Receives the id from which commits are known.
        oldest: Id of the oldest file of the chain that can be read.
    """
    history.since = max(history.since, oldest)
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
