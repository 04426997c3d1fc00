"""Dagster's events of a stream's commits: which commits no event tells of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.commit_links import Told
from kinesis_assets.dagster.names import raw_key
from kinesis_assets.dagster.run_events import events_of
from kinesis_assets.table.commit_ids import drawn_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from kinesis_assets.dagster.commit_links import Link

_CLOCKS_DIFFER = 3600.0
"""Seconds by which an event may seem to be older than its commit."""

_AT_ONCE = 500


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
    runs = runs_of(instance, {link.by for link in bringing if link.by})
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


def runs_of(instance: dg.DagsterInstance, run_ids: Collection[str]) -> dict[str, dg.DagsterRun]:
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
