"""Checks of the table's rows, log and files."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from kinesis_assets.doctor.chain import log_mismatches
from kinesis_assets.doctor.expected_rows import ExpectedRows
from kinesis_assets.doctor.finding import Finding, Level
from kinesis_assets.doctor.row_audit import differences, unproven_rows
from kinesis_assets.errors import PauseUnreadable, StoreUnsuitable
from kinesis_assets.kinesis.clock import utc_now
from kinesis_assets.table.log.delta_log import folder_files, named_files
from kinesis_assets.table.log.rewrites import rewrites_of
from kinesis_assets.table.ownership import amendment_application, application
from kinesis_assets.table.run_files.pause import read_pause
from kinesis_assets.table.store.conditional_puts import check_conditional_puts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kinesis_assets.doctor.history import History
    from kinesis_assets.doctor.row_scan import Scan
    from kinesis_assets.table.log.log_entries import LogEntry
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.snapshot import TableSnapshot
    from kinesis_assets.table.table import PositionedTable


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
    read_rows: Callable[[Sequence[tuple[str, int]]], Scan], snapshot: TableSnapshot, history: History
) -> Iterator[Finding]:
    """Check all rows against the commits.

    Args:
        read_rows: Scans data files, given as path and size in bytes.
        snapshot: The table.
        history: The commits up to that version.
    """
    read = read_rows([(file.path, file.size) for file in snapshot.active_files()])
    accounts = ExpectedRows(
        committed=history.committed,
        rewinds=history.rewinds,
        floor=None if history.amendment is None else history.amendment.floor,
        unproven=history.unproven,
        since=history.since,
        lowered=history.lowered,
    )
    for difference in differences(accounts, read.counted):
        level = Level.PROBLEM if difference.certain else Level.INFO
        yield Finding("rows", level, difference.sentence, difference.shard_id)
    for shard_id, records in sorted(read.duplicates.items()):
        yield Finding("rows", Level.PROBLEM, f"{records} records are in the table more than once", shard_id)
    if unproven := unproven_rows(accounts, read.counted):
        sentence = (
            f"{unproven} rows belong to commits whose row counts were pruned or never recorded: they were "
            "checked for duplicates only"
        )
        yield Finding("rows", Level.INFO, sentence)


def log_findings(history: History, entries: Sequence[LogEntry]) -> Iterator[Finding]:
    """Check the chains against the transactions in the table's log.

    Args:
        history: The chains.
        entries: The versions that the log still has, newest first.
    """
    identity = history.positions.identity
    for chain, name in (
        (history.commits, application(identity)),
        (history.amendments, amendment_application(identity)),
    ):
        for sentence in log_mismatches([commit.commit_id for commit in chain], entries, name):
            yield Finding("log", Level.PROBLEM, sentence)


def restore_findings(
    entries: Sequence[LogEntry], amendment: Amendment | None, *, proven: bool
) -> Iterator[Finding]:
    """Report the versions in the log that restored or overwrote the table.

    Args:
        entries: The versions that the log still has.
        amendment: The newest amendment.
        proven: The rows were read, and they are the rows that the commits added.
    """
    accepted = -1 if amendment is None or amendment.accepted is None else amendment.accepted
    for rewrite in (rewrite for entry in entries for rewrite in rewrites_of(entry)):
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


def file_findings(table: PositionedTable, snapshot: TableSnapshot) -> Iterator[Finding]:
    """Check the files in the table's folder against the log."""
    in_snapshot = {file.path: file for file in snapshot.active_files()}
    # The folder is listed before the log is read, so that a file committed in between is in the log.
    folder = list(folder_files(table.files))
    named = named_files(table.files)
    if unnamed := [file for file in folder if file.path not in named]:
        oldest = min(unnamed, key=lambda file: file.modified)
        age = timedelta(seconds=int((utc_now(table.clock) - oldest.modified).total_seconds()))
        yield Finding(
            "files",
            Level.INFO,
            f"{len(unnamed)} files of {sum(file.size for file in unnamed)} bytes belong to no version; the "
            f"oldest, {oldest.path}, is {age} old. Maintenance will delete them",
        )
    sizes = {file.path: file.size for file in folder}
    for path, file in in_snapshot.items():
        if path not in sizes:
            sentence = f"{path}: {file.rows} rows; the log names this file, but it does not exist"
            yield Finding(
                "files", Level.PROBLEM, f"{sentence}; restore it, or find with --rows what to replay"
            )
        elif sizes[path] != file.size:
            sentence = f"{path}: {sizes[path]} bytes, but the log says {file.size}"
            yield Finding("files", Level.PROBLEM, f"{sentence}; restore it")
