"""The doctor's check of Dagster's runs and events against the commits of a table."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING

from kinesis_assets.dagster.dagster_internals import report_outside_of_runs
from kinesis_assets.dagster.events.metadata import exact_values
from kinesis_assets.dagster.events.missing_events import (
    MAX_FILES,
    commits_without_events,
    event_of,
    materializations_since,
)
from kinesis_assets.dagster.sensor.sensor_cursor import dead_runs
from kinesis_assets.dagster.sensor.sensor_runs import DEAD
from kinesis_assets.errors import StreamError
from kinesis_assets.operations.doctor.finding import Finding, Level, or_ok
from kinesis_assets.table.commit_ids import time_of_id

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    import dagster as dg

    from kinesis_assets.dagster.stream_names import StreamNames
    from kinesis_assets.operations.doctor.history import History
    from kinesis_assets.table.positions.commit_link import CommitLink
    from kinesis_assets.table.positions.range_stats import RangeStats
    from kinesis_assets.table.raw_table import PositionedTable

_COMMITS_PER_QUERY = 200
"""Number of commits whose events are queried together."""


@dataclass(frozen=True, slots=True)
class EventAudit:
    """Compares a table's commits with the events of a Dagster instance.

    Attributes:
        max_commits: Events are added for this many newest commits, and as many newest amendments.
        totals: Returns the event of the stream as a whole. It follows those that are added, because the
            asset's page shows the latest one.
    """

    instance: dg.DagsterInstance
    names: StreamNames
    table: PositionedTable
    add_events: bool = False
    max_commits: int = MAX_FILES
    totals: Callable[[], dg.AssetMaterialization] | None = None

    def __call__(self, history: History) -> Iterator[Finding]:
        """Report dead runs, missing events, and events of rows that no commit added."""
        dead: set[str] = set()
        try:
            dead = dead_runs(self.instance, self.names, self.table)
        except OSError as error:
            yield Finding("runs", Level.PROBLEM, f"heartbeats cannot be listed: {error}")
        else:
            silent = [Finding("runs", Level.PROBLEM, DEAD % run_id) for run_id in sorted(dead)]
            yield from or_ok("runs", silent, "the sensor considers no unfinished run dead")
        findings = chain(self._missing_events(history, dead), self._extra_events(history))
        yield from or_ok("events", findings, "each commit has its events, and each event has its commit")

    def _missing_events(self, history: History, dead: Collection[str]) -> Iterator[Finding]:
        """Report commits without events.

        The sensor adds events of the newest commits only, and so does the doctor.
        """
        commits = sorted([*history.commits, *history.amendments], key=lambda commit: commit.commit_id)
        too_old = {
            commit.commit_id
            for newest_first in (history.commits, history.amendments)
            for commit in newest_first[self.max_commits :]
        }
        skipped: list[CommitLink] = []
        are_added = False
        links = iter(commits)
        while some := list(islice(links, _COMMITS_PER_QUERY)):
            without_events, unfinished = commits_without_events(self.instance, self.names, some, dead)
            for link in unfinished:
                yield Finding(
                    "events",
                    Level.INFO,
                    f"batch {link.batch_id}: its run {link.by} is unfinished; if its process no longer "
                    "exists, terminate it in the UI",
                )
            skipped += [link for link, _ in without_events if link.commit_id in too_old]
            missing = [
                (link, shard_id)
                for link, shard_ids in without_events
                if link.commit_id not in too_old
                for shard_id in shard_ids
            ]
            if self.add_events:
                events = [event_of(link, self.names, shard_id) for link, shard_id in missing]
                report_outside_of_runs(self.instance, events)
                are_added = are_added or bool(events)
            for link, shard_id in missing:
                yield self._missing_event(link, shard_id)
        if are_added and self.totals is not None:
            with suppress(StreamError):  # the next run reports them too
                report_outside_of_runs(self.instance, [self.totals()])
        if skipped:
            yield Finding(
                "events",
                Level.INFO,
                f"{len(skipped)} commits up to batch {skipped[-1].batch_id} have no event in this instance; "
                f"events are added for the newest {self.max_commits} commits only",
            )

    def _missing_event(self, link: CommitLink, shard_id: str) -> Finding:
        sentence = f"batch {link.batch_id}: {link.added[shard_id].rows} rows were committed without an event"
        if not self.add_events:
            sentence = f"{sentence}; the sensor adds it, or the doctor without --dry-run"
            return Finding("events", Level.PROBLEM, sentence, shard_id)
        return Finding("events", Level.INFO, f"{sentence}; the event was added", shard_id)

    def _extra_events(self, history: History) -> Iterator[Finding]:
        """Report events whose rows no commit added."""
        commits = [*history.commits, *history.amendments]
        committed: dict[tuple[str, str], RangeStats] = {
            (str(commit.batch_id), shard_id): stats
            for commit in commits
            for shard_id, stats in commit.added.items()
        }
        oldest = min((commit.commit_id for commit in commits), default=history.positions.commit_id)
        since = time_of_id(oldest) if history.rows.since else 0.0
        extra: list[tuple[str, str, object]] = []
        for event in materializations_since(self.instance, self.names.raw_key, since):
            exact = exact_values(event)
            batch_id, rows, shard_id = exact.get("batch_id"), exact.get("rows"), event.partition
            if not isinstance(batch_id, str) or not batch_id.isdecimal() or not rows or shard_id is None:
                continue
            stats = committed.get((batch_id, shard_id))
            if stats is not None:
                if rows != stats.rows or exact.get("checksum") not in {None, str(stats.checksum)}:
                    yield Finding(
                        "events",
                        Level.PROBLEM,
                        f"batch {batch_id}: its event reports {rows} rows, but the commit added "
                        f"{stats.rows} rows or different ones; trust the commit",
                        shard_id,
                    )
            elif int(batch_id) >= history.rows.since and int(batch_id) not in history.rows.unproven:
                extra.append((batch_id, shard_id, rows))
        known = self._committed_meanwhile(history) if extra else set()
        for batch_id, shard_id, rows in extra:
            if (batch_id, shard_id) not in known:
                yield Finding(
                    "events",
                    Level.PROBLEM,
                    f"batch {batch_id}: an event reports {rows} rows, but no commit added any; was the table "
                    "restored or replaced?",
                    shard_id,
                )

    def _committed_meanwhile(self, history: History) -> set[tuple[str, str]]:
        """Return batch id and shard id of what was committed after the history was read."""
        snapshot = self.table.snapshot()
        identity = history.positions.identity
        found: set[tuple[str, str]] = set()
        positions, amendment = snapshot.positions(identity, or_older=True), snapshot.amendment(identity)
        last = history.positions.commit_id
        newer = () if positions is None else self.table.chain.back_from(positions)
        for each in takewhile(lambda each: each.commit_id > last, newer):
            found |= {(str(each.batch_id), shard_id) for shard_id in each.added}
        before = -1 if history.amendment is None else history.amendment.commit_id
        amended = takewhile(lambda each: each.commit_id > before, self.table.amendments.back_from(amendment))
        return found | {(str(each.batch_id), shard_id) for each in amended for shard_id in each.filled}
