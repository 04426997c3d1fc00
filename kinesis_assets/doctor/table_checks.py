"""Checks of the table's rows, log and files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kinesis_assets.doctor.chain import unlike_the_log
from kinesis_assets.doctor.expected_rows import Accounts
from kinesis_assets.doctor.finding import Finding, Level
from kinesis_assets.doctor.row_audit import differences, unproven_rows
from kinesis_assets.table.delta_log import folder_files, named_files
from kinesis_assets.table.ownership import application, past_application
from kinesis_assets.table.rewrites import rewrites_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import date

    from kinesis_assets.doctor.history import History
    from kinesis_assets.doctor.row_scan import Scan
    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.amendments import Past
    from kinesis_assets.table.log_entries import LogEntry
    from kinesis_assets.table.table import PositionedTable, TableSnapshot


def row_findings(
    read_rows: Callable[[Sequence[tuple[str, int]]], Scan],
    snapshot: TableSnapshot,
    past: Past | None,
    history: History,
) -> Iterator[Finding]:
    """All rows, against what the commits say."""
    read = read_rows([(file.path, file.size) for file in snapshot.standing_files()])
    floor: date | None = None if past is None else past.floor
    accounts = Accounts(
        history.brought, history.rewinds, floor, history.unproven, history.since, history.lowered
    )
    for each in differences(accounts, read.counted):
        level = Level.PROBLEM if each.certain else Level.INFO
        yield Finding("rows", level, each.sentence, each.shard_id)
    for shard_id, records in sorted(read.doubled.items()):
        yield Finding("rows", Level.PROBLEM, f"{records} records are there more than once", shard_id)
    if unproven := unproven_rows(accounts, read.counted):
        told = f"{unproven} rows are of commits whose proof was pruned or never kept"
        yield Finding("rows", Level.INFO, f"{told}: only that each is there once was checked")


def log_findings(
    history: History, entries: Sequence[LogEntry], identity: StreamIdentity
) -> Iterator[Finding]:
    """The chains against the transactions that the log still has."""
    for chain, name in (
        (history.positions, application(identity)),
        (history.pasts, past_application(identity)),
    ):
        for sentence in unlike_the_log(chain, entries, name):
            yield Finding("log", Level.PROBLEM, sentence)


def restore_findings(entries: Sequence[LogEntry], past: Past | None, *, proven: bool) -> Iterator[Finding]:
    """Report the versions in the log that restored or overwrote the table."""
    accepted = -1 if past is None or past.accepted is None else past.accepted
    for rewrite in (rewrite for entry in entries for rewrite in rewrites_of(entry)):
        told = f"{rewrite} replaced rows, but not the positions"
        if proven:
            yield Finding(
                "restore", Level.INFO, f"{told}; the rows are what the commits brought all the same"
            )
        elif rewrite.version <= accepted:
            yield Finding("restore", Level.INFO, f"{told}; it was accepted by hand")
        else:
            todo = "find what is missing with --rows, replay it, and accept the rest with adopt"
            yield Finding("restore", Level.PROBLEM, f"{told}: {todo}")


def file_findings(table: PositionedTable, snapshot: TableSnapshot) -> Iterator[Finding]:
    """The folder against the log."""
    standing = {file.path: file for file in snapshot.standing_files()}
    # The folder first: a file that is committed meanwhile is then named.
    folder = list(folder_files(table.files))
    named = named_files(table.files)
    if unnamed := [file for file in folder if file.path not in named]:
        first = min(unnamed, key=lambda file: file.modified)
        age = timedelta(seconds=int((datetime.now(UTC) - first.modified).total_seconds()))
        told = f"{len(unnamed)} files of {sum(file.size for file in unnamed)} bytes are in no version"
        oldest = f"the oldest, {first.path}, is {age} old"
        yield Finding("files", Level.INFO, f"{told}; {oldest}. Maintenance deletes them in time")
    there: Mapping[str, int] = {file.path: file.size for file in folder}
    for path, named_file in standing.items():
        if path not in there:
            told = f"{path}: {named_file.rows} rows, named by the log and not there"
            yield Finding("files", Level.PROBLEM, f"{told}; restore it, or see with --rows what to replay")
        elif there[path] != named_file.size:
            told = f"{path}: {there[path]} bytes, but the log says {named_file.size}"
            yield Finding("files", Level.PROBLEM, f"{told}; restore it")
