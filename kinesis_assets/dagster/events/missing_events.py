"""Compare a table's commits with Dagster's events, and find the events that are missing.

A run reports its commit after the fact, so a run that dies in between leaves rows without an event. The
commits form a chain: each names the one before it. The progress of the comparison is stored as the newest
commit id that was compared, with the segments that are still to be compared: those of unfinished runs, and
those for which there was no time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

import dagster as dg
import msgspec

from kinesis_assets.dagster.events.metadata import commit_metadata, events_of, exact_values
from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.table.commit_ids import time_of_id

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from kinesis_assets.dagster.stream_names import StreamNames
    from kinesis_assets.derive.commit_entry import DerivedCommit
    from kinesis_assets.table.positions.commit_link import CommitLink


_Link = TypeVar("_Link", "CommitLink", "DerivedCommit")

EventKey = tuple[str, str]
"""Identifies the event of a shard in a commit: the batch id as text, and the shard id."""

FILLED = "filled"
"""The state in a shard's event after a replay added rows behind its position."""

_MAX_COMMITS_BETWEEN = 10
"""The maximum number of commits between two segments that are joined, which are then compared again. Without
a limit, a run that never ends would keep every later commit."""


class ChainSegment(msgspec.Struct, frozen=True, array_like=True):
    """A segment of a chain.

    Attributes:
        newest: The newest commit id, inclusive.
        until: The commit id before the oldest one, exclusive; None for the start of the chain.
        runs: The runs that made all commits of the segment, which waits while all of them are unfinished;
            empty for a segment that does not wait.
    """

    newest: int
    until: int | None
    runs: tuple[str, ...] = ()


def event_key(link: CommitLink, shard_id: str) -> EventKey:
    """Return the key of a shard's event."""
    return str(link.batch_id), shard_id


def event_of(link: CommitLink, names: StreamNames, shard_id: str) -> dg.AssetMaterialization:
    """Build the event of a shard whose rows a commit added."""
    state = ShardState.FINISHED if shard_id in link.finished else ShardState.COMMITTED
    metadata = commit_metadata(
        names.stream, FILLED if link.filled else str(state), link.added[shard_id], batch_id=link.batch_id
    )
    return dg.AssetMaterialization(names.raw_key, partition=shard_id, metadata=metadata)


def read_links(
    link_at: Callable[[int], _Link],
    segment: ChainSegment,
    max_links: int,
    is_over: Callable[[], bool] | None = None,
) -> tuple[list[_Link], ChainSegment | None]:
    """Read the commits of a segment, newest first, up to a number of commits or a time limit.

    Args:
        is_over: Whether the time limit is reached; None for no limit. One commit is read in any case.

    Returns:
        The commits, and the rest of the segment; None if nothing is left to read.
    """
    links: list[_Link] = []
    commit_id: int | None = segment.newest
    while commit_id is not None and commit_id != segment.until:
        if len(links) >= max_links or (links and is_over is not None and is_over()):
            return links, ChainSegment(commit_id, segment.until)
        try:
            links.append(link_at(commit_id))
        except PositionsUnreadable:
            break  # maintenance has deleted the older files
        commit_id = links[-1].previous
    return links, None


def segment_of(link: CommitLink) -> ChainSegment:
    """Return the segment that consists of one commit."""
    return ChainSegment(link.commit_id, link.previous)


def join_segments(
    segments: Iterable[ChainSegment], before: Mapping[int, int | None]
) -> Iterator[ChainSegment]:
    """Yield segments with neighbours as one segment, if both or neither of them wait for runs.

    Of those that wait, segments with a few commits of other runs between them are neighbours too, and these
    commits are compared again. Otherwise each of several continuous runs at the same time would leave a
    segment for each of its commits.

    Args:
        segments: The segments, newest first.
        before: For each commit that was just read, the commit id before it in the chain.
    """
    last: ChainSegment | None = None
    for segment in segments:
        if last is not None and bool(last.runs) == bool(segment.runs) and _is_near(last, segment, before):
            last = ChainSegment(last.newest, segment.until, tuple(dict.fromkeys((*last.runs, *segment.runs))))
            continue
        if last is not None:
            yield last
        last = segment
    if last is not None:
        yield last


def _is_near(newer: ChainSegment, older: ChainSegment, before: Mapping[int, int | None]) -> bool:
    """Whether two segments are adjacent; or, if they wait for runs, only a few commits apart."""
    commit_id = newer.until
    for _ in range(_MAX_COMMITS_BETWEEN if newer.runs else 0):
        if commit_id is None or commit_id == older.newest:
            break
        commit_id = before.get(commit_id)
    return commit_id == older.newest


MAX_FILES = 200
"""The maximum number of commits that a comparison reads. A new instance gets no events of older ones."""

MAX_EVENTS = 500
"""The maximum number of events that are added in one comparison: to store them takes seconds."""

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
        newest: The chain's newest commit id; None if the chain is empty.
        dead: The ids of runs that count as ended although their status says otherwise. If such a run is still
            alive, its later events are duplicates.
        max_files: The maximum number of commits to read. `MAX_SECONDS` may end the reading earlier.

    Returns:
        The missing events, oldest commit first, which the caller must add; and the progress after that.
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
        read, rest = read_links(link_at, segment, max_files - len(links), None if is_first else is_over)
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
        added = shard_ids[: MAX_EVENTS - len(events)]
        events += [event_of(link, names, shard_id) for shard_id in added]
        if len(added) < len(shard_ids):
            kept.append(segment_of(link))
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


_CLOCKS_DIFFER = 3600.0
"""Seconds by which an event may appear to be older than its commit."""

_PAGE_SIZE = 500

_OUT_OF_ORDER = 60.0
"""Seconds by which a run may report a later commit before an earlier one."""


def commits_without_events(
    instance: dg.DagsterInstance, names: StreamNames, links: Iterable[CommitLink], dead: Collection[str]
) -> tuple[list[tuple[CommitLink, list[str]]], list[CommitLink]]:
    """Find the shards of some commits that have no event.

    Returns:
        The commits with the ids of the shards without an event; and the commits of unfinished runs, which may
        still report them.
    """
    with_rows = [link for link in links if link.added]
    runs = known_runs(instance, {link.by for link in with_rows if link.by})
    unfinished = [
        link
        for link in with_rows
        if (run := runs.get(link.by or "")) and not run.is_finished and run.run_id not in dead
    ]
    waiting = {link.commit_id for link in unfinished}
    ended = [link for link in with_rows if link.commit_id not in waiting]
    wanted: dict[str, set[EventKey]] = {}
    for link in ended:
        if link.by in runs:
            wanted.setdefault(link.by, set()).update(event_key(link, shard_id) for shard_id in link.added)
    reported = set[EventKey]().union(
        *(_reported_by_run(instance, names, *of_run) for of_run in wanted.items())
    )
    candidates = _without_event([(link, link.added) for link in ended], reported)
    return _without_event(candidates, _reported_later(instance, names, candidates)), unfinished


def materializations_since(
    instance: dg.DagsterInstance, key: dg.AssetKey, since: float, partitions: Collection[str] | None = None
) -> Iterator[dg.AssetMaterialization]:
    """Yield the materializations of an asset, or of some partitions, since a point in time, newest first."""
    records_filter = dg.AssetRecordsFilter(
        key,
        asset_partitions=None if partitions is None else sorted(partitions),
        after_timestamp=since - _CLOCKS_DIFFER,
    )
    cursor: str | None = None
    while True:
        page = instance.fetch_materializations(records_filter, limit=_PAGE_SIZE, cursor=cursor)
        for record in page.records:
            if record.asset_materialization is not None:
                yield record.asset_materialization
        if not page.has_more:
            return
        cursor = page.cursor


def known_runs(instance: dg.DagsterInstance, run_ids: Collection[str]) -> dict[str, dg.DagsterRun]:
    """Return those of the runs that exist in the instance, by run id."""
    ids = sorted(run_ids)
    found: dict[str, dg.DagsterRun] = {}
    for first in range(0, len(ids), _PAGE_SIZE):
        runs = instance.get_runs(dg.RunsFilter(run_ids=ids[first : first + _PAGE_SIZE]))
        found |= {run.run_id: run for run in runs}
    return found


def _without_event(
    links: Iterable[tuple[CommitLink, Iterable[str]]], reported: Collection[EventKey]
) -> list[tuple[CommitLink, list[str]]]:
    """Return the commits' shards that were not reported, without the commits that have none."""
    found = [
        (link, [shard_id for shard_id in shard_ids if event_key(link, shard_id) not in reported])
        for link, shard_ids in links
    ]
    return [(link, shard_ids) for link, shard_ids in found if shard_ids]


def _reported_by_run(
    instance: dg.DagsterInstance, names: StreamNames, run_id: str, wanted: Collection[EventKey]
) -> set[EventKey]:
    """Return those of the wanted events that a run reported itself.

    Observations count, because they report shards that failed after some rows. The events are read newest
    first, and only until all are found or are of earlier commits, because a continuous run has many.
    """
    left = set(wanted)
    since = min(time_of_id(int(batch_id)) for batch_id, _ in wanted) - _OUT_OF_ORDER
    for event in events_of(instance, run_id, newest_first=True):
        if not left:
            break
        batch_id = exact_values(event).get("batch_id")
        if event.asset_key != names.raw_key or event.partition is None or batch_id is None:
            continue
        if time_of_id(int(batch_id)) < since:
            break
        left.discard((str(batch_id), event.partition))
    return set(wanted) - left


def _reported_later(
    instance: dg.DagsterInstance, names: StreamNames, candidates: Collection[tuple[CommitLink, list[str]]]
) -> set[EventKey]:
    """Return the events that were added later for runs that did not report them."""
    if not candidates:
        return set()
    since = min(time_of_id(link.batch_id) for link, _ in candidates)
    wanted = {shard_id for _, shard_ids in candidates for shard_id in shard_ids}
    return {
        (str(exact_values(event).get("batch_id")), event.partition)
        for event in materializations_since(instance, names.raw_key, since, wanted)
        if event.partition is not None
    }
