"""The events of a derived table: their metadata, and those that report commits which runs could not report.

A run reports its commits after the fact. If it dies or fails in between, its last commits have no event,
and the next run of the table reports them. The search starts from the table: a commit entry names
its run and the commit before it. An event names the last commit that it covers, and covers the earlier ones
of the same run too, because a run reports its commits in their order.

The event of a run also says how far the commits were compared, and which ones are left because their runs
may still report them. The next run compares only these and later ones.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dagster as dg
import msgspec

from kinesis_assets.dagster.dagster_internals import report_events
from kinesis_assets.dagster.events.metadata import exact_entry, exact_values
from kinesis_assets.dagster.events.missing_events import (
    ChainSegment,
    ComparisonProgress,
    join_segments,
    known_runs,
    materializations_since,
    read_links,
)
from kinesis_assets.dagster.events.table_metadata import derived_columns
from kinesis_assets.errors import TableError, TableUnreachable
from kinesis_assets.table.commit_ids import time_of_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.derive.commit_entry import DerivedCommit
    from kinesis_assets.derive.derived_table import DerivedTable


COMMIT_ID = "commit_id"
"""The id of the last commit that an event covers, among its exact values. It covers those that the same run
made before, too."""

COMPARED = "compared"
"""The name of the progress of the comparison among the exact values of an event, as JSON."""

MAX_COMMITS = 200
"""The maximum number of commits that a comparison reads in one go. The next run continues; but the first
comparison of an instance is the last one of the commits before it, which get no events."""

_NEWEST_EVENTS = 100
"""The number of events that every run reads. One of them has the progress of the comparison."""


def derived_metadata(
    commits: Sequence[DerivedCommit], totals: Mapping[str, Any] = {}, exact: Mapping[str, object] = {}
) -> dict[str, Any]:
    """Return the event metadata of some commits of a derived table, oldest first."""
    facts: dict[str, Any] = {
        "rows": sum(commit.rows for commit in commits),
        "rows deleted": sum(commit.deleted for commit in commits),
    }
    if counts := [commit.bad_records for commit in commits if commit.bad_records is not None]:
        facts["bad records"] = sum(counts)
    if redriven := [commit.redriven for commit in commits if commit.redriven is not None]:
        facts["records redriven"] = sum(each.decoded for each in redriven)
        facts["bad records left"] = redriven[-1].left
    if unmatched := [commit.unmatched for commit in commits if commit.unmatched is not None]:
        facts["unmatched records"] = sum(unmatched)
    if given_up := list(dict.fromkeys(each for commit in commits for each in commit.given_up)):
        facts["on deleted"] = ", ".join(sorted({str(each.on_deleted) for each in commits if each.given_up}))
        facts["given up"] = "; ".join(map(str, given_up))
        facts["rows given up"] = sum(each.rows or 0 for each in given_up)
    ids = {"cursor": str(commits[-1].cursor), COMMIT_ID: str(commits[-1].commit_id)} if commits else {}
    return {**facts, **totals, **exact_entry({"commits": len(commits), **ids, **exact})}


def report_missing_events(
    context: dg.AssetExecutionContext, opened: OpenStream, key: dg.AssetKey, table: DerivedTable
) -> ComparisonProgress:
    """Report the commits of a derived table that have no event, one event for each run that made them.

    Returns:
        The progress of the comparison, for `metadata_after` of the events of this run.
    """
    instance = context.instance
    records = instance.fetch_materializations(key, limit=_NEWEST_EVENTS).records
    events = [record.asset_materialization for record in records if record.asset_materialization]
    before = max(map(_progress_of, events), key=lambda progress: progress.through or 0, default=_NOTHING)
    snapshot = table.existing()
    newest = None if snapshot is None else snapshot.newest
    if newest is None:
        return before
    segments = [ChainSegment(newest.commit_id, before.through), *before.left]
    runs = known_runs(instance, {run_id for segment in segments for run_id in segment.runs})
    unfinished = _unfinished(instance, opened, runs)
    waiting = [segment for segment in segments if segment.runs and unfinished.issuperset(segment.runs)]
    found = {
        segment: read_links(table.entries.at, segment, MAX_COMMITS)
        for segment in segments
        if segment not in waiting
    }
    commits = [commit for read, _ in found.values() for commit in read]
    missing = _missing(instance, key, commits, events)
    others = {commit.by for commit in missing if commit.by is not None} - {context.run.run_id}
    unfinished = _unfinished(instance, opened, known_runs(instance, others))
    by_run: dict[str | None, list[DerivedCommit]] = {}
    for commit in reversed(missing):
        if commit.by not in unfinished:  # such a run may still report it
            by_run.setdefault(commit.by, []).append(commit)
    for by, made in sorted(by_run.items(), key=lambda item: item[1][-1].commit_id):
        maker = "an unknown run" if by is None else f"the run {by}"
        event = dg.AssetMaterialization(
            key,
            description=f"Committed by {maker}, which did not report it.",
            metadata=derived_metadata(made),
        )
        report_events(context.get_step_execution_context(), [event])
    unreported = {commit.commit_id for commit in missing if commit.by in unfinished}
    left: list[ChainSegment] = []  # in the order of the chain, in which ids need not decrease
    for segment in segments:
        if segment in waiting:
            left.append(segment)
            continue
        read, rest = found[segment]
        left += [
            ChainSegment(commit.commit_id, commit.previous, (str(commit.by),))
            for commit in read
            if commit.commit_id in unreported
        ]
        if before.through is not None and rest is not None:
            left.append(rest)
    previous = {commit.commit_id: commit.previous for commit in commits}
    return ComparisonProgress(newest.commit_id, tuple(join_segments(left, previous)))


def metadata_after(
    progress: ComparisonProgress, commits: Sequence[DerivedCommit], totals: Mapping[str, Any] = {}
) -> tuple[dict[str, Any], ComparisonProgress]:
    """Return the event metadata of some commits of this run, oldest first, and the progress after the event.

    Commits of other runs in between are left to the next run.
    """
    for commit in commits:
        if commit.previous == progress.through:
            progress = msgspec.structs.replace(progress, through=commit.commit_id)
    compared = {COMPARED: msgspec.json.encode(progress).decode()}
    return derived_metadata(commits, totals, compared), progress


_NOTHING = ComparisonProgress()


def _progress_of(event: dg.AssetMaterialization) -> ComparisonProgress:
    try:
        return msgspec.json.decode(str(exact_values(event).get(COMPARED)), type=ComparisonProgress)
    except msgspec.MsgspecError:  # another writer's event, or one without progress
        return _NOTHING


def _missing(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    commits: Sequence[DerivedCommit],
    newest_events: Sequence[dg.AssetMaterialization],
) -> list[DerivedCommit]:
    """Return the commits that no event covers, newest first. Those of maintenance have none."""
    commits = [commit for commit in commits if not commit.maintains]
    missing = _without_event(commits, newest_events)
    if not missing:
        return []
    since = time_of_id(min(commit.commit_id for commit in missing))
    return _without_event(commits, materializations_since(instance, key, since))


def _without_event(
    newest_first: Sequence[DerivedCommit], events: Iterable[dg.AssetMaterialization]
) -> list[DerivedCommit]:
    reported = {exact_values(event).get(COMMIT_ID) for event in events}
    covered: set[str | None] = set()
    missing = []
    for commit in newest_first:
        if str(commit.commit_id) in reported:
            covered.add(commit.by)
        elif commit.by not in covered:
            missing.append(commit)
    return missing


def _unfinished(
    instance: dg.DagsterInstance, opened: OpenStream, runs: Mapping[str, dg.DagsterRun]
) -> set[str]:
    """Return the runs that may still report their commits."""
    from kinesis_assets.dagster.sensor.sensor_cursor import dead_runs  # noqa: PLC0415  # its import loads the sensor

    unfinished = {run_id for run_id, run in runs.items() if not run.is_finished}
    if not unfinished:
        return unfinished
    try:
        return unfinished - dead_runs(instance, opened.names, opened.table)
    except OSError as error:
        raise TableUnreachable(opened.table.uri, f"heartbeats cannot be listed: {error}") from error


READ_INTERVAL = 60.0
"""Minimum seconds from one read of a table's log to the next in a continuous run."""

_ROWS = "dagster/row_count"

_log = logging.getLogger(__name__)


def totals_of_table(table: DerivedTable) -> dict[str, Any]:
    """Return the event metadata of a table as it is now; empty if it cannot be read."""
    try:
        snapshot = table.snapshot()
        totals, columns = snapshot.totals(), derived_columns(snapshot.schema)
    except TableError as error:
        _log.warning("the event does not have the rows of the table: %s", error)
        return {}
    rows = {} if totals.rows is None else {_ROWS: totals.rows}
    return {**rows, "dagster/size_bytes": totals.bytes, "dagster/column_schema": columns}


@dataclass(slots=True)
class RunningTotals:
    """The totals of a table in a continuous run, which commits too often to read the log each time."""

    table: DerivedTable
    clock: Callable[[], float] = time.monotonic
    _known: dict[str, Any] = field(default_factory=dict, init=False)
    _read_at: float = field(default=float("-inf"), init=False)

    def after(self, commit: DerivedCommit) -> dict[str, Any]:
        """Return the event metadata of the table after a commit."""
        if self.clock() - self._read_at >= READ_INTERVAL:
            self._known, self._read_at = totals_of_table(self.table), self.clock()
        elif _ROWS in self._known:
            self._known = self._known | {_ROWS: self._known[_ROWS] + commit.rows - commit.deleted}
        return self._known
