"""Search Dagster's event log for the events of a stream's commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.events.commit_links import EventKey, event_key
from kinesis_assets.dagster.events.metadata import exact_values
from kinesis_assets.dagster.events.run_events import events_of
from kinesis_assets.table.commit_ids import time_of_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from kinesis_assets.dagster.stream_names import StreamNames
    from kinesis_assets.table.positions.commit_link import CommitLink

_CLOCKS_DIFFER = 3600.0
"""Seconds by which an event may appear to be older than its commit."""

_PAGE_SIZE = 500


def commits_without_events(
    instance: dg.DagsterInstance, names: StreamNames, links: Iterable[CommitLink], dead: Collection[str] = ()
) -> tuple[list[tuple[CommitLink, list[str]]], list[CommitLink]]:
    """Find the shards of some commits that have no event.

    Args:
        instance: The instance with the events.
        names: The names of the stream's definitions.
        links: The commits.
        dead: The ids of runs that count as ended although their status says otherwise.

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
    """Yield the materializations of an asset since a point in time, newest first.

    Args:
        instance: The instance with the events.
        key: The asset's key.
        since: The point in time, in seconds since the epoch.
        partitions: Only these partitions; None for all events.
    """
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
    first and only until all are found, because a continuous run has many.
    """
    left = set(wanted)
    for event in events_of(instance, run_id, newest_first=True):
        if not left:
            break
        if event.asset_key == names.raw_key and event.partition is not None:
            left.discard((str(exact_values(event).get("batch_id")), event.partition))
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
