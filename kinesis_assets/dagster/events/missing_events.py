"""Compare a table's commits with Dagster's events, and find the events that are missing.

A run reports its commit after the fact, so a run that dies in between leaves rows without an event. The
commits form a chain: each names the one before it. The progress of the comparison is stored as the newest
commit id that was compared, with the segments that are still to be compared: those of unfinished runs, and
those for which there was no time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.dagster.events.commit_links import (
    ChainSegment,
    event_of,
    join_segments,
    read_links,
    segment_of,
)
from kinesis_assets.dagster.events.event_log import commits_without_events, known_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    import dagster as dg

    from kinesis_assets.dagster.stream_names import StreamNames
    from kinesis_assets.table.positions.commit_link import CommitLink

MAX_FILES = 200
"""The maximum number of commits that a comparison reads. A new instance gets no events of older ones."""

MAX_EVENTS = 1000
"""The maximum number of events that are added in one comparison. A single commit may have more."""

MAX_SECONDS = 3.0
"""The maximum time for reading commits, and then for searching events. The rest is left to the next
comparison, because a sensor tick must end within a minute."""

_EVENTS_PER_SEARCH = 500
"""The number of events that are searched together before the time is checked again."""


class ComparisonProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """The progress of comparing a chain with the events.

    Attributes:
        through: The newest commit id that was compared, inclusive; None if the chain was never compared.
        left: The older segments that are still to be compared, newest first.
    """

    through: int | None = None
    left: tuple[ChainSegment, ...] = ()


def find_missing_events(
    instance: dg.DagsterInstance,
    names: StreamNames,
    link_at: Callable[[int], CommitLink],
    newest: int | None,
    done: ComparisonProgress,
    *,
    dead: Collection[str] = (),
    max_files: int = MAX_FILES,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[list[dg.AssetMaterialization], ComparisonProgress]:
    """Find the events that an instance lacks for the commits since the last comparison.

    The first comparison of a chain covers only its newest commits.

    Args:
        instance: The instance with the events.
        names: The names of the stream's definitions.
        link_at: Reads the commit with a given commit id.
        newest: The chain's newest commit id; None if the chain is empty.
        done: The progress so far.
        dead: The ids of runs that count as ended although their status says otherwise. If such a run is still
            alive, its later events are duplicates.
        max_files: The maximum number of commits to read. `MAX_SECONDS` may end the reading earlier.
        clock: Returns the time in seconds.

    Returns:
        The missing events, oldest commit first, which the caller must add; and the progress after that.

    Raises:
        TableUnreachable: The chain cannot be read now.
    """
    if newest is None:
        return [], done
    segments = [*([ChainSegment(newest, done.through)] if newest != done.through else []), *done.left]
    links: list[CommitLink] = []
    left: list[ChainSegment] = []
    is_over = _timer(clock)
    runs = known_runs(instance, {run_id for segment in segments for run_id in segment.runs})
    unfinished = {run_id for run_id, run in runs.items() if not run.is_finished and run_id not in dead}
    for segment in segments:
        if segment.runs and unfinished.issuperset(segment.runs):
            left.append(segment)
            continue
        is_first = done.through is None and segment.newest == newest
        # The rest of a first comparison is never compared, so it gets the time that it needs.
        read, rest = read_links(link_at, segment, max_files - len(links), _never if is_first else is_over)
        links += read
        if rest is not None and not is_first:
            left.append(rest)
    events, kept = _events_of_ended_runs(instance, names, links, dead, _timer(clock))
    left = sorted([*left, *kept], key=lambda segment: segment.newest, reverse=True)
    before = {link.commit_id: link.previous for link in links}
    return events, ComparisonProgress(newest, tuple(join_segments(left, before)))


def _timer(clock: Callable[[], float]) -> Callable[[], bool]:
    """Return a function that returns whether `MAX_SECONDS` have passed since now."""
    until = clock() + MAX_SECONDS
    return lambda: clock() > until


def _never() -> bool:
    return False


def _events_of_ended_runs(
    instance: dg.DagsterInstance,
    names: StreamNames,
    links: Sequence[CommitLink],
    dead: Collection[str],
    is_over: Callable[[], bool],
) -> tuple[list[dg.AssetMaterialization], list[ChainSegment]]:
    """Return the missing events, oldest commit first, and the segments that are still to be compared."""
    found: list[tuple[CommitLink, list[str]]] = []
    kept: list[ChainSegment] = []
    for number, group in enumerate(_groups(links)):
        if number and is_over():
            kept += map(segment_of, group)
            continue
        without_events, unfinished = commits_without_events(instance, names, group, dead)
        found += without_events
        # The commit of an unfinished run always names its run.
        kept += [ChainSegment(link.commit_id, link.previous, (link.by,)) for link in unfinished if link.by]
    events: list[dg.AssetMaterialization] = []
    for link, shard_ids in sorted(found, key=lambda item: item[0].commit_id):
        if events and len(events) + len(shard_ids) > MAX_EVENTS:
            kept.append(segment_of(link))
        else:
            events += [event_of(link, names, shard_id) for shard_id in shard_ids]
    return events, kept


def _groups(links: Sequence[CommitLink]) -> Iterator[list[CommitLink]]:
    """Yield groups of commits whose events are searched together. Adjacent commits of a run are one group."""
    group: list[CommitLink] = []
    shards = 0
    for link in links:
        if shards >= _EVENTS_PER_SEARCH and (link.by is None or link.by != group[-1].by):
            yield group
            group, shards = [], 0
        group.append(link)
        shards += len(link.added)
    if group:
        yield group
