"""Report the commits of a derived table for which runs could not report an event.

A run reports its commits after the fact. If it dies or fails in between, its last commits have no event, and
the next run of the table reports them. The search starts from the table: the record of a commit names its run
and the commit before it. An event names the last commit that it covers, and covers the earlier ones of the
same run too, because a run reports its commits in their order.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.consumption import COMMIT_ID, derived_metadata
from kinesis_assets.dagster.dagster_internals import report_event
from kinesis_assets.dagster.event_log import known_runs, materializations_since, metadata_value
from kinesis_assets.errors import PositionsUnreadable, TableMissing, TableUnreachable
from kinesis_assets.table.commit_ids import time_of_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.derive.derived_table import DerivedTable
    from kinesis_assets.derive.records import DerivedCommit

MAX_COMMITS = 200
"""The maximum number of commits that are compared with the events. Older ones get no events, as in a new
instance."""

_NEWEST_COMMITS = 10
"""The number of commits that every run compares. Several runs at once may have made them."""

_NEWEST_EVENTS = 100
"""The number of events with which it compares them. Events of runs without new rows cover no commit."""


def report_missing_events(
    context: dg.AssetExecutionContext, opened: OpenStream, key: dg.AssetKey, table: str
) -> None:
    """Report the commits of a derived table that have no event, one event for each run that made them.

    Args:
        context: The context of the running asset, whose run reports them.
        opened: The stream of the table, whose sensor knows dead runs.
        key: The key of the table's asset.
        table: The table's path or URI.

    Raises:
        PositionsUnreadable: The record of the newest commit is missing or damaged.
        TableUnreachable: The table cannot be read at present.
        TableUnsuitable: The table is not a derived table.
    """
    from kinesis_assets.derive.derived_table import DerivedTable  # noqa: PLC0415  # definitions open no table

    instance = context.instance
    missing = _commits_without_events(instance, key, DerivedTable(table))
    others = {commit.by for commit in missing if commit.by is not None} - {context.run.run_id}
    unfinished = {run_id for run_id, run in known_runs(instance, others).items() if not run.is_finished}
    if unfinished:
        unfinished.difference_update(_dead_runs(instance, opened))
    by_run: dict[str | None, list[DerivedCommit]] = {}
    for commit in reversed(missing):
        if commit.by not in unfinished:  # such a run may still report it
            by_run.setdefault(commit.by, []).append(commit)
    for by, commits in sorted(by_run.items(), key=lambda item: item[1][-1].commit_id):
        maker = "an unknown run" if by is None else f"the run {by}"
        event = dg.AssetMaterialization(
            key,
            description=f"Committed by {maker}, which did not report it.",
            metadata=derived_metadata(commits),
        )
        report_event(context, event)


def _commits_without_events(
    instance: dg.DagsterInstance, key: dg.AssetKey, table: DerivedTable
) -> list[DerivedCommit]:
    """Return the commits that no event covers, newest first."""
    try:
        newest = table.snapshot().newest
    except TableMissing:
        return []
    records = instance.fetch_materializations(key, limit=_NEWEST_EVENTS).records
    events = [record.asset_materialization for record in records if record.asset_materialization]
    if not _without_event(list(islice(_back_from(table, newest), _NEWEST_COMMITS)), events):
        return []
    commits = list(islice(_back_from(table, newest), MAX_COMMITS))
    return _without_event(commits, materializations_since(instance, key, time_of_id(commits[-1].commit_id)))


def _without_event(
    newest_first: Sequence[DerivedCommit], events: Iterable[dg.AssetMaterialization]
) -> list[DerivedCommit]:
    """Return the commits that no event covers."""
    reported = {metadata_value(event, COMMIT_ID) for event in events}
    covered: set[str | None] = set()
    missing = []
    for commit in newest_first:
        if str(commit.commit_id) in reported:
            covered.add(commit.by)
        elif commit.by not in covered:
            missing.append(commit)
    return missing


def _back_from(table: DerivedTable, newest: DerivedCommit | None) -> Iterator[DerivedCommit]:
    """Yield the newest commit and the ones before it, as far as their records can be read."""
    commits = table.records.back_from(newest)
    while True:
        try:
            commit = next(commits, None)
        except PositionsUnreadable:
            return  # no run needs the older records
        if commit is None:
            return
        yield commit


def _dead_runs(instance: dg.DagsterInstance, opened: OpenStream) -> Collection[str]:
    from kinesis_assets.dagster.dead_runs import dead_runs  # noqa: PLC0415  # its import loads the sensor

    try:
        return dead_runs(instance, opened.name, opened.table)
    except OSError as error:
        raise TableUnreachable(opened.table.uri, f"heartbeats cannot be listed: {error}") from error
