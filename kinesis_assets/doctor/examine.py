"""The doctor: verify a table against its log, its stream and Dagster's events.

The doctor changes nothing, except that an event audit may add missing events. In a bucket, it writes a probe
and deletes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kinesis_assets.doctor.finding import Finding, Level, or_ok
from kinesis_assets.doctor.history import History, walk_amendments, walk_positions
from kinesis_assets.doctor.stream_checks import floor_findings, shard_findings, stream_findings
from kinesis_assets.doctor.table_checks import (
    file_findings,
    log_findings,
    pause_findings,
    restore_findings,
    row_findings,
    store_findings,
)
from kinesis_assets.errors import ShardListStale, StreamError, StreamRecreated, TableError
from kinesis_assets.ingest.stale_list import check_list
from kinesis_assets.kinesis.clock import utc_now
from kinesis_assets.kinesis.relist import retry_listing
from kinesis_assets.kinesis.role_credentials import credentials_of

if TYPE_CHECKING:
    from kinesis_assets.doctor.row_scan import Scan
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.table import PositionedTable

AuditEvents = Callable[[History], Iterator[Finding]]
"""Compares a table's commits with Dagster's events."""


@dataclass(frozen=True, slots=True)
class Doctor:
    """Runs the checks of one stream and its table.

    Attributes:
        client: The stream.
        table: Its table.
        audit_events: Checks runs and events, as `EventAudit` does for a Dagster instance; None skips this.
        read_rows: Scans data files, given as path and size in bytes; None skips the check of rows.
        probes_store: Whether it writes a probe to check the store of a table in a bucket.
    """

    client: StreamClient
    table: PositionedTable
    audit_events: AuditEvents | None = None
    read_rows: Callable[[Sequence[tuple[str, int]]], Scan] | None = None
    probes_store: bool = True

    def findings(self) -> Iterator[Finding]:
        """Run every check. A check without a problem yields one finding of level OK."""
        if (role := self.client.settings.role) is not None:
            caller = credentials_of(role).caller
            yield Finding("role", Level.OK, f"the stream and the table are accessed as {caller}")
        try:
            listing = retry_listing(self.client, lambda listing: listing)
        except StreamError as error:
            yield Finding("stream", Level.PROBLEM, f"nothing else was checked: {error}")
            return
        try:
            # Read the table as it is now, not as this process has cached it.
            table = self.table.reopened()
            snapshot = table.snapshot()
            positions = snapshot.positions(listing.summary.identity, or_older=True)
            amendment = snapshot.amendment(listing.summary.identity)
        except StreamRecreated as error:
            yield Finding("stream", Level.PROBLEM, f"nothing else was checked: {error}")
            return
        except TableError as error:
            yield Finding("table", Level.PROBLEM, f"nothing else was checked: {error}")
            return
        yield Finding("table", Level.OK, f"{self.table.uri} can be read")
        yield from pause_findings(self.table)
        if self.probes_store and self.table.folder.bucket is not None:
            yield from or_ok(
                "store", store_findings(self.table), "of two commits of one version, the store accepts one"
            )
        if positions is None:
            yield Finding("positions", Level.INFO, "there are none: no run has committed yet")
            return
        yield Finding("positions", Level.OK, f"generation {positions.generation} can be read")
        yield from or_ok("stream", stream_findings(positions, listing), "the positions belong to this stream")
        yield from floor_findings(amendment, listing)
        try:
            recorded = snapshot.with_all_archived(positions)
        except TableError as error:
            yield Finding("positions", Level.PROBLEM, f"nothing else was checked: {error}")
            return
        yield from or_ok(
            "shards", self._shards(recorded, amendment, listing), "the stream lists all unfinished shards"
        )
        history = History(positions, amendment, utc_now(self.table.clock))
        breaks = [*walk_positions(snapshot, history), *walk_amendments(snapshot, history)]
        commits = len(history.commits) + len(history.amendments)
        yield from or_ok("continuity", breaks, f"{commits} commits follow each other without a break")
        entries = list(table.rewrites.entries_back(0, snapshot.version))
        yield from or_ok(
            "log",
            log_findings(history, entries),
            f"the newest {len(entries)} versions refer to these commits, in order",
        )
        rows: list[Finding] = []
        if self.read_rows is not None:
            rows = list(row_findings(self.read_rows, snapshot, history))
            yield from or_ok("rows", rows, "each row exists once, and the commits added these rows")
        # A finding without a shard is about pruned commits, which can never be verified.
        proven = self.read_rows is not None and not any(finding.shard is not None for finding in rows)
        yield from or_ok(
            "restore",
            restore_findings(entries, amendment, proven=proven),
            "no version in the log restored or overwrote the table",
        )
        if self.audit_events is None:
            yield Finding("events", Level.INFO, "not checked: set DAGSTER_HOME to the instance's folder")
        else:
            yield from self.audit_events(history)
        yield from or_ok(
            "files", file_findings(self.table, snapshot), "all files belong to a version, and none is missing"
        )

    def _shards(
        self, positions: StreamPositions, amendment: Amendment | None, listing: StreamListing
    ) -> Iterator[Finding]:
        """Check the positions against a list of shards, which is requested again if it contradicts them."""
        if positions.identity != listing.summary.identity:
            return

        def consistent(listing: StreamListing) -> StreamListing:
            check_list(listing, positions, self.table.uri)
            return listing

        try:
            yield from shard_findings(positions, amendment, retry_listing(self.client, consistent, listing))
        except ShardListStale as error:
            for shard_id, reason in error.reasons.items():
                yield Finding("shards", Level.PROBLEM, reason, shard_id)
        except StreamError as error:
            yield Finding("shards", Level.PROBLEM, str(error))
