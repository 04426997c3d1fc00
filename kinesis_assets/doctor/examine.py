"""The doctor: holds a table against its own log, the stream and Dagster's events, and says what is wrong.

It changes nothing, except that it adds the events that are missing if it is told to.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from kinesis_assets.dagster.reconcile import MOST_FILES, Link, fact, told_since, untold
from kinesis_assets.dagster.sensor_runs import DEAD
from kinesis_assets.doctor.finding import Finding, Level, or_ok
from kinesis_assets.doctor.history import History, walk_past, walk_positions
from kinesis_assets.doctor.stream_checks import floor_findings, shard_findings, stream_findings
from kinesis_assets.doctor.table_checks import file_findings, log_findings, restore_findings, row_findings
from kinesis_assets.errors import (
    ShardListStale,
    StreamError,
    StreamRecreated,
    TableError,
)
from kinesis_assets.ingest.stale_list import check_list
from kinesis_assets.kinesis.relist import relisted
from kinesis_assets.table.commit_ids import drawn_at
from kinesis_assets.table.log_entries import log_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    import dagster as dg

    from kinesis_assets.doctor.row_scan import Scan
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.amendments import Past
    from kinesis_assets.table.positions import StreamPositions
    from kinesis_assets.table.table import PositionedTable

_AT_ONCE = 200
"""Commits whose events are looked for together."""


@dataclass(frozen=True, slots=True)
class Doctor:
    """What is examined, and with what.

    Attributes:
        client: The stream.
        table: Its table.
        instance: Where the events are; None leaves them alone.
        add_events: Add the events that are missing.
        read_rows: Reads the keys of all rows; None leaves the rows alone.
    """

    client: StreamClient
    table: PositionedTable
    instance: dg.DagsterInstance | None = None
    add_events: bool = False
    read_rows: Callable[[Sequence[tuple[str, int]]], Scan] | None = None

    def findings(self) -> Iterator[Finding]:
        """Every check's findings; a check that finds nothing wrong says so in one."""
        try:
            listing = relisted(self.client, lambda listing: listing)
        except StreamError as error:
            yield Finding("stream", Level.PROBLEM, f"{error}; nothing else was checked")
            return
        try:
            # As it is now, whatever this process read of it before.
            snapshot = self.table.reopened().snapshot()
            positions = snapshot.positions(listing.summary.identity, or_older=True)
            past = snapshot.past(listing.summary.identity)
        except StreamRecreated as error:
            yield Finding("stream", Level.PROBLEM, f"{error}; nothing else was checked")
            return
        except TableError as error:
            yield Finding("table", Level.PROBLEM, f"{error}; nothing else was checked")
            return
        yield Finding("table", Level.OK, f"{self.table.uri} can be read")
        if positions is None:
            yield Finding("positions", Level.INFO, "no run has been there yet")
            return
        yield Finding("positions", Level.OK, f"generation {positions.generation} can be read")
        yield from or_ok(
            "stream", stream_findings(positions, listing), "it is the one that the positions are of"
        )
        yield from floor_findings(past, listing)
        try:
            recorded = snapshot.with_archive(positions)
        except TableError as error:
            yield Finding("positions", Level.PROBLEM, f"{error}; nothing else was checked")
            return
        yield from or_ok("shards", self._shards(recorded, past, listing), "all that are unread are listed")
        history = History()
        walk = [*walk_positions(snapshot, positions, history), *walk_past(snapshot, past, history)]
        told = f"{len(history.links)} commits follow on each other without a break"
        yield from or_ok("continuity", walk, told)
        entries = list(log_entries(self.table.files, snapshot.version))
        yield from or_ok(
            "log",
            log_findings(history, entries, positions.identity),
            f"the newest {len(entries)} versions point at these commits in their order",
        )
        rows: list[Finding] = []
        if self.read_rows is not None:
            rows = list(row_findings(self.read_rows, snapshot, past, history))
            yield from or_ok("rows", rows, "each is there once, and they are what the commits brought")
        # Rows of commits that were pruned are of no shard: of those nothing more can ever be said.
        proven = self.read_rows is not None and not any(row.shard is not None for row in rows)
        yield from or_ok(
            "restore",
            restore_findings(entries, past, proven=proven),
            "no version in the log restored or overwrote the table",
        )
        yield from self._runs_and_events(history, positions, past)
        yield from or_ok(
            "files", file_findings(self.table, snapshot), "the log names all files, and all are there"
        )

    def _shards(
        self, positions: StreamPositions, past: Past | None, listing: StreamListing
    ) -> Iterator[Finding]:
        """The stream's present shards against the positions."""
        if positions.identity != listing.summary.identity:
            return

        def consistent(listing: StreamListing) -> StreamListing:
            check_list(listing, positions, self.table.uri)
            return listing

        try:
            yield from shard_findings(positions, past, relisted(self.client, consistent, listing))
        except ShardListStale as error:
            for shard_id, reason in error.reasons.items():
                yield Finding("shards", Level.PROBLEM, reason, shard_id)
        except StreamError as error:
            yield Finding("shards", Level.PROBLEM, str(error))

    def _runs_and_events(
        self, history: History, positions: StreamPositions, past: Past | None
    ) -> Iterator[Finding]:
        """What the instance has of the stream's runs."""
        if self.instance is None:
            yield Finding("events", Level.INFO, "not checked: set DAGSTER_HOME to the instance's folder")
            return
        from kinesis_assets.dagster.dead_runs import dead_runs  # noqa: PLC0415  # with an instance alone

        dead: set[str] = set()
        try:
            dead = dead_runs(self.instance, self.client.stream, self.table)
        except OSError as error:
            yield Finding("runs", Level.PROBLEM, f"heartbeats cannot be listed: {error}")
        else:
            silent = [Finding("runs", Level.PROBLEM, DEAD % run_id) for run_id in sorted(dead)]
            yield from or_ok("runs", silent, "the sensor considers no unfinished run dead")
        events = self._events(self.instance, history, positions, past, dead)
        yield from or_ok("events", events, "each commit was told, and nothing else")

    def _events(
        self,
        instance: dg.DagsterInstance,
        history: History,
        positions: StreamPositions,
        past: Past | None,
        dead: Collection[str],
    ) -> Iterator[Finding]:
        stream = self.client.stream
        links = iter(sorted(history.links, key=lambda link: link.token))
        older: list[Link] = []
        while some := list(islice(links, _AT_ONCE)):
            found, unfinished = untold(instance, stream, some, dead)
            for link in unfinished:
                told = f"batch {link.batch_id}: its run {link.by} is unfinished"
                way_out = "if its process no longer exists, terminate it in the UI"
                yield Finding("events", Level.INFO, f"{told}; {way_out}")
            for link, shard_ids in found:
                if link.token in history.older:
                    older.append(link)
                    continue
                for shard_id in shard_ids:
                    yield self._missing(instance, link, shard_id)
        if older:
            told = f"{len(older)} commits up to batch {older[-1].batch_id} were never told to this instance"
            yield Finding("events", Level.INFO, f"{told}; only of the newest {MOST_FILES} events are added")
        yield from self._extra(instance, history, positions, past)

    def _missing(self, instance: dg.DagsterInstance, link: Link, shard_id: str) -> Finding:
        told = f"batch {link.batch_id}: {link.landed[shard_id].rows} rows were committed and never told"
        if not self.add_events:
            return Finding("events", Level.PROBLEM, f"{told}; the sensor or the doctor adds it", shard_id)
        instance.report_runless_asset_event(link.event(self.client.stream, shard_id))
        return Finding("events", Level.INFO, f"{told}; the event is added", shard_id)

    def _extra(
        self,
        instance: dg.DagsterInstance,
        history: History,
        positions: StreamPositions,
        past: Past | None,
    ) -> Iterator[Finding]:
        """Events of rows that no commit brought."""
        proven = {
            link.told(shard_id): landed for link in history.links for shard_id, landed in link.landed.items()
        }
        oldest = min((link.token for link in history.links), default=positions.token)
        since = drawn_at(oldest) if history.since else 0.0
        extra = []
        for event in told_since(instance, self.client.stream, since):
            batch_id, rows, shard_id = (
                *(fact(event, name) for name in ("batch_id", "rows")),
                event.partition,
            )
            if not isinstance(batch_id, str) or not batch_id.isdecimal() or not rows or shard_id is None:
                continue
            landed = proven.get((batch_id, shard_id))
            if landed is not None:
                checksum = fact(event, "checksum")
                if rows != landed.rows or checksum not in {None, str(landed.checksum)}:
                    told = f"batch {batch_id}: its event tells of {rows} rows, the commit of {landed.rows}"
                    yield Finding(
                        "events", Level.PROBLEM, f"{told}, or of others; trust the commit", shard_id
                    )
            elif int(batch_id) >= history.since and int(batch_id) not in history.unproven:
                extra.append((batch_id, shard_id, rows))
        known = self._committed_since(positions, past) if extra else set()
        for batch_id, shard_id, rows in extra:
            if (batch_id, shard_id) not in known:
                told = f"batch {batch_id}: an event tells of {rows} rows, but no commit brought any"
                yield Finding(
                    "events", Level.PROBLEM, f"{told}; was the table set back or replaced?", shard_id
                )

    def _committed_since(self, positions: StreamPositions, past: Past | None) -> set[tuple[str, str]]:
        """What was committed while this looked."""
        snapshot = self.table.snapshot()
        found: set[tuple[str, str]] = set()
        newest = snapshot.positions(positions.identity, or_older=True)
        while newest is not None and newest.token > positions.token:
            link = Link.of_positions(newest)
            found |= {link.told(shard_id) for shard_id in link.landed}
            newest = None if link.previous is None else snapshot.positions_at(link.previous)
        last = snapshot.past(positions.identity)
        while last is not None and (past is None or last.token > past.token):
            link = Link.of_past(last)
            found |= {link.told(shard_id) for shard_id in link.landed}
            last = None if link.previous is None else snapshot.past_at(link.previous)
        return found
