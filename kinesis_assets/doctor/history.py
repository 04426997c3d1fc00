"""The history of a table's commits, read from its positions files and amendment files."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kinesis_assets.dagster.reconcile import MOST_FILES, Link
from kinesis_assets.doctor.chain import PROVEN_SINCE, breaks
from kinesis_assets.doctor.expected_rows import Brought, Rewind
from kinesis_assets.doctor.finding import Finding, Level
from kinesis_assets.errors import (
    PositionsUnreadable,
)
from kinesis_assets.table.commit_ids import drawn_at
from kinesis_assets.table.maintenance.upkeep import CHAIN_KEPT, CHAIN_NEEDED
from kinesis_assets.table.row_predicates import passed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from kinesis_assets.table.amendments import Past
    from kinesis_assets.table.positions import StreamPositions
    from kinesis_assets.table.table import TableSnapshot


@dataclass(slots=True)
class History:
    """What a walk along the chains came by.

    Attributes:
        links: The commits and the fills.
        older: Tokens of those that are too far back for the sensor to tell of.
        brought: What they brought.
        rewinds: What was taken out by hand.
        unproven: Batches of older versions, which do not tell what they brought.
        lowered: Tokens of the commits that lowered the floor, with the floor before.
        since: Before this token nothing is known; 0 if everything is.
        positions: The tokens of the positions' chain, newest first.
        pasts: The tokens of the chain of what was done behind them, likewise.
    """

    links: list[Link] = field(default_factory=list)
    older: set[int] = field(default_factory=set)
    brought: list[Brought] = field(default_factory=list)
    rewinds: list[Rewind] = field(default_factory=list)
    unproven: set[int] = field(default_factory=set)
    lowered: list[tuple[int, date]] = field(default_factory=list)
    since: int = 0
    positions: list[int] = field(default_factory=list)
    pasts: list[int] = field(default_factory=list)


def walk_positions(snapshot: TableSnapshot, newest: StreamPositions, history: History) -> Iterator[Finding]:
    """The chain of positions, from the newest back to where it was pruned."""
    now, read = snapshot.with_archive(newest), 0
    while True:
        try:
            before = None
            if now.previous is not None:
                before = snapshot.with_archive(snapshot.positions_at(now.previous))
        except PositionsUnreadable as error:
            yield from _pruned(error, now.previous or 0, history, now.token)
            before = None
        history.positions.append(now.token)
        _keep(history, Link.of_positions(now), read)
        read += 1
        _account(history, before, now)
        if now.adopted:  # of older rows no commit is known
            history.since = max(history.since, now.token)
        if before is None:
            return
        for shard_id, sentence in breaks(before, now):
            yield Finding("continuity", Level.PROBLEM, f"generation {now.generation}: {sentence}", shard_id)
        now = before


def _keep(history: History, link: Link, read: int) -> None:
    """A commit, after so many newer ones of its chain."""
    history.links.append(link)
    if read >= MOST_FILES:
        history.older.add(link.token)


def _account(history: History, before: StreamPositions | None, now: StreamPositions) -> None:
    """What one commit brought and took out."""
    if now.format < PROVEN_SINCE:
        history.unproven.add(now.batch_id)
    shards = {} if before is None else before.shards
    for shard_id, landed in now.landed.items():
        # Nothing can have arrived before there was a stream.
        arrived = (shards[shard_id].last_arrival if shard_id in shards else None) or now.identity.created
        through = now.shards[shard_id].last_arrival if shard_id in now.shards else None
        history.brought.append(
            Brought(
                token=now.token,
                batch_id=now.batch_id,
                shard_id=shard_id,
                landed=landed,
                arrived_from=arrived.date(),
                arrived_through=None if through is None else through.date(),
            )
        )
    for shard_id, shard in now.shards.items():
        known = len(shards[shard_id].seeks) if shard_id in shards else len(shard.seeks)
        history.rewinds += [
            Rewind(now.token, shard_id, passed(seek.after), seek.rows_removed)
            for seek in shard.seeks[known:]
            if seek.rows_removed
        ]


def walk_past(snapshot: TableSnapshot, newest: Past | None, history: History) -> Iterator[Finding]:
    """The chain of what was done behind the positions."""
    now, read = newest, 0
    while now is not None:
        history.pasts.append(now.token)
        _keep(history, Link.of_past(now), read)
        read += 1
        # What the table's retention has taken is never filled in again.
        history.brought += [
            Brought(now.token, now.batch_id, shard_id, landed, arrived_from=now.floor, filled=True)
            for shard_id, landed in now.filled.items()
        ]
        try:
            before = None if now.previous is None else snapshot.past_at(now.previous)
        except PositionsUnreadable as error:
            yield from _pruned(error, now.previous or 0, history, now.token)
            return
        if now.lowered_from is not None:
            history.lowered.append((now.token, now.lowered_from))
            told = f"the floor was lowered from {now.lowered_from} to {now.floor} by {now.by or 'someone'}"
            yield Finding("continuity", Level.INFO, f"{told} at {now.at:%Y-%m-%dT%H:%M:%SZ}")
        floor = None if before is None else before.floor
        if floor is not None and floor != now.lowered_from and (now.floor is None or now.floor < floor):
            yield Finding("continuity", Level.PROBLEM, f"the floor went back from {floor} to {now.floor}")
        now = before


def _pruned(error: PositionsUnreadable, token: int, history: History, oldest: int) -> Iterator[Finding]:
    """A chain's end that is not its beginning."""
    history.since = max(history.since, oldest)
    age = datetime.now(UTC) - datetime.fromtimestamp(drawn_at(token), UTC)
    if age >= CHAIN_KEPT:
        return
    if age < CHAIN_NEEDED:
        yield Finding("continuity", Level.PROBLEM, f"{error}; it is too young to have been pruned")
    else:
        told = f"{error}, unless maintenance pruned it since the commits were many; of older ones nothing"
        yield Finding("continuity", Level.INFO, f"{told} is told here")
