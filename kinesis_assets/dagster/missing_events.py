"""The commits against Dagster's events: which commits the instance was never told of.

A run tells of its commit after the fact, so one that dies in between leaves rows without an event. The
commits form a chain, each naming the one before it; what was compared is remembered as its newest token,
with the stretches that were left: those whose runs were unfinished, and those too long for one time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.dagster.commit_links import Stretch, joined, stretch_of, walk
from kinesis_assets.dagster.event_log import runs_of, untold

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    import dagster as dg

    from kinesis_assets.dagster.commit_links import Link

MOST_FILES = 200
"""Files of a chain that are read at a time; of older commits a new instance is not told."""

MOST_EVENTS = 1000
"""Events that are added at a time; a commit's go together, so that one commit may have more."""

MOST_SECONDS = 3.0
"""So long files are read, and then events: the rest is left for another time. A tick of the sensor has a
minute for all that it does."""

_LOOKED_FOR_AT_ONCE = 500
"""Events of so many shards of some commits are looked for together, between two looks at the clock."""


class Reconciled(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a chain was compared with the events.

    Attributes:
        through: Everything up to this token was; None for nothing yet.
        left: Except for these, newest first.
    """

    through: int | None = None
    left: tuple[Stretch, ...] = ()


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
    runs = runs_of(instance, {run_id for stretch in stretches for run_id in stretch.runs})
    unfinished = {run_id for run_id, run in runs.items() if not run.is_finished and run_id not in dead}
    for stretch in stretches:
        if stretch.runs and unfinished.issuperset(stretch.runs):
            left.append(stretch)
            continue
        is_first = done.through is None and stretch.newest == newest
        # What is left of a first look is left for good, so that one has the time it needs.
        read, rest = walk(link_at, stretch, most_files - len(links), _never if is_first else is_over)
        links += read
        if rest is not None and not is_first:
            left.append(rest)
    events, kept = _untold_of_ended(instance, stream, links, dead, _timer(clock))
    left = sorted([*left, *kept], key=_newest, reverse=True)
    before = {link.token: link.previous for link in links}
    return events, Reconciled(newest, tuple(joined(left, before)))


def _timer(clock: Callable[[], float]) -> Callable[[], bool]:
    """Tells whether `MOST_SECONDS` are over since now."""
    until = clock() + MOST_SECONDS
    return lambda: clock() > until


def _never() -> bool:
    return False


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
            kept += map(stretch_of, some)
            continue
        lacking, unfinished = untold(instance, stream, some, dead)
        found += lacking
        # Each has a run, or it would not be unfinished.
        kept += [Stretch(link.token, link.previous, (link.by,)) for link in unfinished if link.by]
    events: list[dg.AssetMaterialization] = []
    for link, shard_ids in sorted(found, key=lambda each: each[0].token):
        if events and len(events) + len(shard_ids) > MOST_EVENTS:
            kept.append(stretch_of(link))
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


def _newest(stretch: Stretch) -> int:
    return stretch.newest
