"""The commits against Dagster's events: which commits the instance was never told of.

A run tells of its commit after the fact, so one that dies in between leaves rows without an event. The
commits form a chain, each naming the one before it; what was compared is remembered as its newest token,
with the stretches that were left: those whose runs were unfinished, and those too long for one time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg
import msgspec

from kinesis_assets.dagster.metadata import landed_metadata
from kinesis_assets.dagster.names import raw_key
from kinesis_assets.dagster.run_events import events_of
from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.table.commit_ids import drawn_at

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from kinesis_assets.table.amendments import Past
    from kinesis_assets.table.positions import Landed, StreamPositions

MOST_FILES = 200
"""Files of a chain that are read at a time; of older commits a new instance is not told."""

MOST_EVENTS = 1000
"""Events that are added at a time; a commit's go together, so that one commit may have more."""

MOST_SECONDS = 3.0
"""So long files are read, and then events: the rest is left for another time. A tick of the sensor has a
minute for all that it does."""

_LOOKED_FOR_AT_ONCE = 500
"""Events of so many shards of some commits are looked for together, between two looks at the clock."""

FILLED = "filled"
"""The state of a shard in the event of rows that were filled in behind its position."""

_CLOCKS_DIFFER = 3600.0
"""Seconds by which an event may seem to be older than its commit."""

_BETWEEN = 10
"""So many commits are looked at again for one stretch instead of two. Without a bound, a run that never ends
would keep all that came after it."""

_AT_ONCE = 500

Told = tuple[str, str]
"""A batch's id as text, and a shard's: what an event tells of."""


class Stretch(msgspec.Struct, frozen=True, array_like=True):
    """Part of a chain.

    Attributes:
        newest: Its newest token, inclusive.
        until: The token it goes back to, exclusive; None for the chain's beginning.
        runs: If any, all of it was made by these, and it is not looked at while all of them are unfinished.
    """

    newest: int
    until: int | None
    runs: tuple[str, ...] = ()


class Reconciled(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a chain was compared with the events.

    Attributes:
        through: Everything up to this token was; None for nothing yet.
        left: Except for these, newest first.
    """

    through: int | None = None
    left: tuple[Stretch, ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """One commit, as far as its events go.

    Attributes:
        token: Names its file.
        previous: The token before it.
        batch_id: Its rows carry it.
        by: Who made it: a Dagster run's id, or a person.
        landed: What it brought, by shard id.
        states: What an event calls the state of each of these shards.
    """

    token: int
    previous: int | None
    batch_id: int
    by: str | None
    landed: Mapping[str, Landed]
    states: Mapping[str, str]

    @classmethod
    def of_positions(cls, positions: StreamPositions) -> Link:
        """A commit that moved positions."""
        states = {
            shard_id: str(
                ShardState.FINISHED if positions.shards[shard_id].finished else ShardState.COMMITTED
            )
            for shard_id in positions.landed
        }
        return cls(
            token=positions.token,
            previous=positions.previous,
            batch_id=positions.batch_id,
            by=positions.by,
            landed=positions.landed,
            states=states,
        )

    @classmethod
    def of_past(cls, past: Past) -> Link:
        """A commit behind the positions."""
        return cls(
            token=past.token,
            previous=past.previous,
            batch_id=past.batch_id,
            by=past.by,
            landed=past.filled,
            states=dict.fromkeys(past.filled, FILLED),
        )

    def told(self, shard_id: str) -> Told:
        """What an event of one of its shards tells of."""
        return str(self.batch_id), shard_id

    def event(self, stream: str, shard_id: str) -> dg.AssetMaterialization:
        """The event of one of its shards."""
        metadata = landed_metadata(
            stream, shard_id, self.landed[shard_id], self.batch_id, state=self.states[shard_id]
        )
        return dg.AssetMaterialization(raw_key(stream), partition=shard_id, metadata=metadata)


def missing_events(
    instance: dg.DagsterInstance,
    stream: str,
    link_at: Callable[[int], Link],
    newest: int | None,
    done: Reconciled,
    *,
    dead: Collection[str] = (),
    most_files: int = MOST_FILES,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[list[dg.AssetMaterialization], Reconciled]:
    """The events that an instance lacks of what was committed since it was last compared.

    Of a chain that was never compared, only its newest part is.

    Args:
        instance: Where the events are.
        stream: The stream's name.
        link_at: Reads the commit of a token.
        newest: The chain's newest token; None for an empty one.
        done: How far it was compared.
        dead: Runs that count as ended though they are not marked so. If one lives after all, what it tells
            later is there twice.
        most_files: So many commits are read, or fewer if `MOST_SECONDS` are over.
        clock: Tells the seconds.

    Returns:
        The events, oldest commit first, to be added by the caller; and how far it is compared then.

    Raises:
        TableUnreachable: The chain cannot be read now.
    """
    if newest is None:
        return [], done
    stretches = [*([Stretch(newest, done.through)] if newest != done.through else []), *done.left]
    links: list[Link] = []
    left: list[Stretch] = []
    is_over = _timer(clock)
    runs = _runs(instance, {run_id for stretch in stretches for run_id in stretch.runs})
    unfinished = {run_id for run_id, run in runs.items() if not run.is_finished and run_id not in dead}
    for stretch in stretches:
        if stretch.runs and unfinished.issuperset(stretch.runs):
            left.append(stretch)
            continue
        is_first = done.through is None and stretch.newest == newest
        # What is left of a first look is left for good, so that one has the time it needs.
        read, rest = _walk(link_at, stretch, most_files - len(links), _never if is_first else is_over)
        links += read
        if rest is not None and not is_first:
            left.append(rest)
    events, kept = _untold_of_ended(instance, stream, links, dead, _timer(clock))
    left = sorted([*left, *kept], key=_newest, reverse=True)
    before = {link.token: link.previous for link in links}
    return events, Reconciled(newest, tuple(_joined(left, before)))


def untold(
    instance: dg.DagsterInstance, stream: str, links: Iterable[Link], dead: Collection[str] = ()
) -> tuple[list[tuple[Link, list[str]]], list[Link]]:
    """Which shards of some commits no event tells of.

    Args:
        instance: Where the events are.
        stream: The stream's name.
        links: The commits.
        dead: Runs that count as ended though they are not marked so.

    Returns:
        Commits with such shards; and the commits whose runs are unfinished, which may still tell.
    """
    bringing = [link for link in links if link.landed]
    runs = _runs(instance, {link.by for link in bringing if link.by})
    unfinished = [
        link
        for link in bringing
        if (run := runs.get(link.by or "")) and not run.is_finished and run.run_id not in dead
    ]
    waiting = {link.token for link in unfinished}
    ended = [link for link in bringing if link.token not in waiting]
    wanted: dict[str, set[Told]] = {}
    for link in ended:
        if link.by in runs:
            wanted.setdefault(link.by, set()).update(map(link.told, link.landed))
    told = set[Told]().union(*(_told_by(instance, stream, *of_run) for of_run in wanted.items()))
    candidates = _lacking([(link, link.landed) for link in ended], told)
    return _lacking(candidates, _told_without_run(instance, stream, candidates)), unfinished


def told_since(
    instance: dg.DagsterInstance, stream: str, since: float, shard_ids: Collection[str] | None = None
) -> Iterator[dg.AssetMaterialization]:
    """The materializations of a stream's shards since a moment (seconds since the epoch), newest first."""
    asked = dg.AssetRecordsFilter(
        raw_key(stream),
        asset_partitions=None if shard_ids is None else sorted(shard_ids),
        after_timestamp=since - _CLOCKS_DIFFER,
    )
    cursor: str | None = None
    while True:
        page = instance.fetch_materializations(asked, limit=_AT_ONCE, cursor=cursor)
        for record in page.records:
            if record.asset_materialization is not None:
                yield record.asset_materialization
        if not page.has_more:
            return
        cursor = page.cursor


def fact(event: dg.AssetMaterialization | dg.AssetObservation, name: str) -> object:
    """A fact in an event's metadata; None if it has none of that name."""
    value = event.metadata.get(name)
    return None if value is None else value.value


def _timer(clock: Callable[[], float]) -> Callable[[], bool]:
    """Tells whether `MOST_SECONDS` are over since now."""
    until = clock() + MOST_SECONDS
    return lambda: clock() > until


def _never() -> bool:
    return False


def _walk(
    link_at: Callable[[int], Link], stretch: Stretch, most: int, is_over: Callable[[], bool]
) -> tuple[list[Link], Stretch | None]:
    """The commits of a stretch, and what is left of it when that many were read or the time is over."""
    links: list[Link] = []
    token: int | None = stretch.newest
    while token is not None and token != stretch.until:
        if len(links) >= most or (links and is_over()):
            return links, Stretch(token, stretch.until)
        try:
            links.append(link_at(token))
        except PositionsUnreadable:
            break  # pruned: nobody can tell any more
        token = links[-1].previous
    return links, None


def _untold_of_ended(
    instance: dg.DagsterInstance,
    stream: str,
    links: Sequence[Link],
    dead: Collection[str],
    is_over: Callable[[], bool],
) -> tuple[list[dg.AssetMaterialization], list[Stretch]]:
    """The missing events, oldest commit first; and the commits that are left for another time."""
    found: list[tuple[Link, list[str]]] = []
    kept: list[Stretch] = []
    for number, some in enumerate(_together(links)):
        if number and is_over():
            kept += map(_stretch_of, some)
            continue
        lacking, unfinished = untold(instance, stream, some, dead)
        found += lacking
        # Each has a run, or it would not be unfinished.
        kept += [Stretch(link.token, link.previous, (link.by,)) for link in unfinished if link.by]
    events: list[dg.AssetMaterialization] = []
    for link, shard_ids in sorted(found, key=lambda each: each[0].token):
        if events and len(events) + len(shard_ids) > MOST_EVENTS:
            kept.append(_stretch_of(link))
        else:
            events += [link.event(stream, shard_id) for shard_id in shard_ids]
    return events, kept


def _together(links: Sequence[Link]) -> Iterator[list[Link]]:
    """Commits whose events are looked for together, in their order. A run's are, if they are side by side."""
    some: list[Link] = []
    shards = 0
    for link in links:
        if shards >= _LOOKED_FOR_AT_ONCE and (link.by is None or link.by != some[-1].by):
            yield some
            some, shards = [], 0
        some.append(link)
        shards += len(link.landed)
    if some:
        yield some


def _stretch_of(link: Link) -> Stretch:
    return Stretch(link.token, link.previous)


def _newest(stretch: Stretch) -> int:
    return stretch.newest


def _joined(stretches: Iterable[Stretch], before: Mapping[int, int | None]) -> Iterator[Stretch]:
    """The same, newest first, with those that follow on each other as one if both wait for runs or none.

    Of runs that follow side by side the commits of one that ended are looked at again for that, or what is
    left of the others would be as many stretches as they have commits.

    Args:
        stretches: What is left, newest first.
        before: The token before each of the commits that were just read.
    """
    last: Stretch | None = None
    for stretch in stretches:
        if last is not None and bool(last.runs) == bool(stretch.runs) and _is_near(last, stretch, before):
            last = Stretch(last.newest, stretch.until, tuple(dict.fromkeys((*last.runs, *stretch.runs))))
            continue
        if last is not None:
            yield last
        last = stretch
    if last is not None:
        yield last


def _is_near(newer: Stretch, older: Stretch, before: Mapping[int, int | None]) -> bool:
    """Whether nothing is between two stretches; or, of those that wait for runs, few commits."""
    token = newer.until
    for _ in range(_BETWEEN if newer.runs else 0):
        if token is None or token == older.newest:
            break
        token = before.get(token)
    return token == older.newest


def _runs(instance: dg.DagsterInstance, run_ids: Collection[str]) -> dict[str, dg.DagsterRun]:
    """Those of the runs that the instance knows."""
    asked = sorted(run_ids)
    found: dict[str, dg.DagsterRun] = {}
    for first in range(0, len(asked), _AT_ONCE):
        runs = instance.get_runs(dg.RunsFilter(run_ids=asked[first : first + _AT_ONCE]))
        found |= {run.run_id: run for run in runs}
    return found


def _lacking(
    links: Iterable[tuple[Link, Iterable[str]]], told: Collection[Told]
) -> list[tuple[Link, list[str]]]:
    """Those of some commits' shards that are not told of; without the commits that have none."""
    some = [(link, [each for each in shard_ids if link.told(each) not in told]) for link, shard_ids in links]
    return [(link, shard_ids) for link, shard_ids in some if shard_ids]


def _told_by(instance: dg.DagsterInstance, stream: str, run_id: str, wanted: Collection[Told]) -> set[Told]:
    """Which of these a run told itself. A shard that failed after some rows was told by an observation.

    The newest of its events are read first, and no more of them than it takes: a run that follows has many.
    """
    left = set(wanted)
    for event in events_of(instance, run_id, newest_first=True):
        if not left:
            break
        if event.asset_key == raw_key(stream) and event.partition is not None:
            left.discard((str(fact(event, "batch_id")), event.partition))
    return set(wanted) - left


def _told_without_run(
    instance: dg.DagsterInstance, stream: str, candidates: Collection[tuple[Link, list[str]]]
) -> set[Told]:
    """What was added for runs that did not tell."""
    if not candidates:
        return set()
    since = min(drawn_at(link.batch_id) for link, _ in candidates)
    wanted = {shard_id for _, shard_ids in candidates for shard_id in shard_ids}
    return {
        (str(fact(event, "batch_id")), event.partition)
        for event in told_since(instance, stream, since, wanted)
        if event.partition is not None
    }
