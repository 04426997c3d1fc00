"""The doctor verifies a table, and changes nothing, except that an event audit may add missing events.

In a bucket, it writes a probe and deletes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from kinesis_assets.errors import (
    PauseUnreadable,
    ShardListStale,
    StoreUnsuitable,
    StreamError,
    StreamRecreated,
    TableError,
)
from kinesis_assets.ingest.shard_lists import check_list
from kinesis_assets.kinesis.clock import utc_now
from kinesis_assets.kinesis.listing_retries import list_shards, retry_listing
from kinesis_assets.kinesis.role_credentials import credentials_of
from kinesis_assets.operations.doctor.finding import Finding, Level, or_ok
from kinesis_assets.operations.doctor.history import History, log_mismatches, walk_amendments, walk_positions
from kinesis_assets.operations.doctor.row_audit import differences, unproven_rows
from kinesis_assets.table.ownership import amendment_application, application
from kinesis_assets.table.run_files.pause import read_pause
from kinesis_assets.table.store.storage import data_files_in
from kinesis_assets.table.store.suitability import check_conditional_puts

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.operations.doctor.row_scan import Scan
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.table.snapshot import TableSnapshot
    from kinesis_assets.table.stored_table import LogEntry, Rewrite


AuditEvents = Callable[[History], Iterator[Finding]]
"""Compares a table's commits with Dagster's events."""

ReadRows = Callable[[Sequence[tuple[str, int]]], "Scan"]
"""Scans data files, given as path and size in bytes."""


def examine(
    client: StreamClient,
    table: PositionedTable,
    *,
    audit_events: AuditEvents | None = None,
    read_rows: ReadRows | None = None,
    probes_store: bool = True,
) -> Iterator[Finding]:
    """Run every check of a stream and its table. A check without a problem yields one finding of level OK.

    Args:
        audit_events: Checks runs and events, as `EventAudit` does for a Dagster instance; None skips this.
        read_rows: Reads the rows; None skips the check of rows.
        probes_store: Whether a probe is written to check the store of a table in a bucket.
    """
    if (role := client.settings.role) is not None:
        caller = credentials_of(role).caller
        yield Finding("role", Level.OK, f"the stream and the table are accessed as {caller}")
    try:
        listing = list_shards(client)
    except StreamError as error:
        yield Finding("stream", Level.PROBLEM, f"nothing else was checked: {error}")
        return
    try:
        # Read the table as it is now, not as this process has cached it.
        snapshot = table.reopened().snapshot()
        positions = snapshot.positions(listing.summary.identity, or_older=True)
        amendment = snapshot.amendment(listing.summary.identity)
    except StreamRecreated as error:
        yield Finding("stream", Level.PROBLEM, f"nothing else was checked: {error}")
        return
    except TableError as error:
        yield Finding("table", Level.PROBLEM, f"nothing else was checked: {error}")
        return
    yield Finding("table", Level.OK, f"{table.uri} can be read")
    yield from pause_findings(table)
    if probes_store and table.folder.bucket is not None:
        yield from or_ok(
            "store", store_findings(table), "of two commits of one version, the store accepts one"
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
        "shards",
        _listed_shard_findings(client, recorded, amendment, listing),
        "the stream lists all unfinished shards",
    )
    history = History(positions, amendment, utc_now(table.clock))
    breaks = [*walk_positions(snapshot, history), *walk_amendments(snapshot, history)]
    commits = len(history.commits) + len(history.amendments)
    yield from or_ok("continuity", breaks, f"{commits} commits follow each other without a break")
    entries = snapshot.entries()
    yield from or_ok(
        "log",
        log_findings(history, entries),
        f"the newest {len(entries)} versions refer to these commits, in order",
    )
    # S3 Tables lists no files.
    folder = None if snapshot.folder.rows is not None else data_files_in(table.files)
    rows: list[Finding] = []
    if read_rows is not None:
        rows = list(row_findings(read_rows, snapshot, history, folder))
        yield from or_ok("rows", rows, "each row exists once, and the commits added these rows")
    # A finding without a shard is about pruned commits, which can never be verified.
    proven = read_rows is not None and not any(finding.shard is not None for finding in rows)
    yield from or_ok(
        "restore",
        restore_findings(snapshot.rewrites(), amendment, proven=proven),
        "no version in the log restored or overwrote the table",
    )
    if audit_events is None:
        yield Finding("events", Level.INFO, "not checked: set DAGSTER_HOME to the instance's folder")
    else:
        yield from audit_events(history)
    yield from or_ok(
        "files", file_findings(table, snapshot, folder), "all files belong to a version, and none is missing"
    )


def _listed_shard_findings(
    client: StreamClient,
    positions: StreamPositions,
    amendment: Amendment | None,
    listing: StreamListing,
) -> Iterator[Finding]:
    """Check the positions against a list of shards, which is requested again if it contradicts them."""
    if positions.identity != listing.summary.identity:
        return

    def consistent(listing: StreamListing) -> StreamListing:
        check_list(listing, positions)
        return listing

    try:
        yield from shard_findings(positions, amendment, retry_listing(client, consistent, listing))
    except ShardListStale as error:
        for shard_id, reason in error.reasons.items():
            yield Finding("shards", Level.PROBLEM, reason, shard_id)
    except StreamError as error:
        yield Finding("shards", Level.PROBLEM, str(error))


def store_findings(table: PositionedTable) -> Iterator[Finding]:
    """Check that the store of the table supports conditional puts."""
    try:
        unknown = check_conditional_puts(table.uri, table.folder)
    except StoreUnsuitable as error:
        yield Finding("store", Level.PROBLEM, str(error))
        return
    if unknown is not None:
        yield Finding("store", Level.INFO, f"conditional puts were not checked: {unknown}")


def pause_findings(table: PositionedTable) -> Iterator[Finding]:
    """Report a pause of the stream, and a file of a pause that cannot be read."""
    try:
        pause = read_pause(table)
    except PauseUnreadable as error:
        yield Finding("pause", Level.PROBLEM, str(error))
        return
    if pause is not None:
        yield Finding("pause", Level.INFO, str(pause))


def row_findings(
    read_rows: ReadRows, snapshot: TableSnapshot, history: History, folder: Sequence[FileInfo] | None
) -> Iterator[Finding]:
    """Check all rows against the commits. Those of a file that does not exist are missing.

    Args:
        folder: The data files in the table's folder; None if they cannot be listed.
    """
    files = {file.path: file.size for file in snapshot.data_files()}
    exist = files.keys() if folder is None else files.keys() & {file.path for file in folder}
    read = read_rows([(path, size) for path, size in files.items() if path in exist])
    yield from differences(history.rows, read.counted)
    for shard_id, records in sorted(read.duplicates.items()):
        yield Finding("rows", Level.PROBLEM, f"{records} records are in the table more than once", shard_id)
    if unproven := unproven_rows(history.rows, read.counted):
        sentence = (
            f"{unproven} rows belong to commits whose row counts were pruned or never recorded: they were "
            "checked for duplicates only"
        )
        yield Finding("rows", Level.INFO, sentence)


def log_findings(history: History, entries: Sequence[LogEntry]) -> Iterator[Finding]:
    """Check the chains against the transactions in the table's log.

    Args:
        entries: The versions that the log still has, newest first.
    """
    arn = history.positions.arn
    for chain, name in (
        (history.commits, application(arn)),
        (history.amendments, amendment_application(arn)),
    ):
        for sentence in log_mismatches([commit.commit_id for commit in chain], entries, name):
            yield Finding("log", Level.PROBLEM, sentence)


def restore_findings(
    rewrites: Sequence[Rewrite], amendment: Amendment | None, *, proven: bool
) -> Iterator[Finding]:
    """Report the versions in the log that restored or overwrote the table.

    Args:
        rewrites: Those that the log still shows.
        proven: The rows were read, and they are the rows that the commits added.
    """
    accepted = -1 if amendment is None or amendment.accepted is None else amendment.accepted
    for rewrite in rewrites:
        sentence = f"{rewrite} replaced rows, but not the positions"
        if proven:
            sentence = f"{sentence}; the rows are nevertheless those that the commits added"
            yield Finding("restore", Level.INFO, sentence)
        elif rewrite.version <= accepted:
            yield Finding("restore", Level.INFO, f"{sentence}; an operator accepted it")
        else:
            sentence = (
                f"{sentence}: find missing rows with --rows, replay them, then accept the rest with adopt"
            )
            yield Finding("restore", Level.PROBLEM, sentence)


_WAY_OUT_OF_MISSING = (
    "restore it. If it is lost, remove it from the log (of a Delta table, with `DeltaTable.repair` of "
    "deltalake), then find with --rows what to replay"
)


def file_findings(
    table: PositionedTable, snapshot: TableSnapshot, folder: Sequence[FileInfo] | None
) -> Iterator[Finding]:
    """Check the files in the table's folder against the log.

    Args:
        folder: See `row_findings`. It is listed before the newest version is opened, so that this names every
            file that was committed by then.
    """
    if folder is None:
        sentence = "not checked: S3 Tables lists no files, and deletes those that belong to no version"
        yield Finding("files", Level.INFO, f"{sentence}; --rows reads those that do")
        return
    in_snapshot = {file.path: file for file in snapshot.data_files()}
    named = table.snapshot().named_files()
    if unnamed := [file for file in folder if file.path not in named]:
        oldest = min(unnamed, key=lambda file: file.mtime)
        age = timedelta(seconds=int((utc_now(table.clock) - oldest.mtime).total_seconds()))
        yield Finding(
            "files",
            Level.INFO,
            f"{len(unnamed)} files of {sum(file.size for file in unnamed)} bytes belong to no version; the "
            f"oldest, {oldest.path}, is {age} old. Maintenance will delete them",
        )
    sizes = {file.path: file.size for file in folder}
    for path, file in in_snapshot.items():
        if path not in sizes:
            sentence = f"{path}: {file.rows or 0} rows; the log names this file, but it does not exist"
            yield Finding("files", Level.PROBLEM, f"{sentence}; {_WAY_OUT_OF_MISSING}")
        elif sizes[path] != file.size:
            sentence = f"{path}: {sizes[path]} bytes, but the log says {file.size}"
            yield Finding("files", Level.PROBLEM, f"{sentence}; restore it")


def stream_findings(positions: StreamPositions, listing: StreamListing) -> Iterator[Finding]:
    """Check that the positions belong to the stream that exists now."""
    created, now = positions.identity.created, listing.summary.identity.created
    if created != now:
        yield Finding(
            "stream",
            Level.PROBLEM,
            f"the positions belong to the stream created at {created:%Y-%m-%dT%H:%M:%SZ}, which was deleted "
            f"and created again at {now:%Y-%m-%dT%H:%M:%SZ}; see on_recreated",
        )


def floor_findings(amendment: Amendment | None, listing: StreamListing) -> Iterator[Finding]:
    """Check that the floor, the first arrival date that the table keeps, is not in the future."""
    today = listing.summary.service_time.date()
    if amendment is not None and amendment.floor is not None and amendment.floor > today:
        yield Finding(
            "floor",
            Level.PROBLEM,
            f"the floor is {amendment.floor}, which is in the future: maintenance raised it on a machine "
            "with a wrong clock; lower it with `kinesis-assets maintain --lower-floor`, then replay the "
            "range that the stream still has",
        )


def shard_findings(
    positions: StreamPositions, amendment: Amendment | None, listing: StreamListing
) -> Iterator[Finding]:
    """Check each shard's position against a list of shards that is consistent with the positions."""
    listed = {shard.shard_id for shard in listing.shards}
    now = listing.summary.service_time
    for shard_id in sorted(listed - positions.shards.keys()):
        yield Finding("shards", Level.INFO, "new: no run has listed it yet", shard_id)
    for shard_id, shard in positions.shards.items():
        for gap in shard.gaps:
            filled = amendment is not None and amendment.has_cleared(shard_id, gap)
            sentence = "a gap was recorded, and a replay has filled it" if filled else "a gap is recorded"
            yield Finding("shards", Level.INFO, f"{sentence}: {gap}", shard_id)
        if shard.finished:
            continue
        if shard_id not in listed:
            sentence = (
                f"no longer listed, and read only up to {shard.position}; the next run reports the loss"
            )
            yield Finding("shards", Level.PROBLEM, sentence, shard_id)
        elif shard.safe_until is not None and shard.safe_until <= now:
            sentence = f"unread records may have expired since {shard.safe_until:%Y-%m-%dT%H:%M:%SZ}"
            yield Finding("shards", Level.PROBLEM, f"{sentence}; run it, and see on_data_loss", shard_id)
