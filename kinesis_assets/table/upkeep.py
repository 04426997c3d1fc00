"""What keeps a table quick and small, by commits that change neither its rows nor its positions."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

from deltalake.exceptions import CommitFailedError, DeltaError

from kinesis_assets.errors import CommitFailed, TableUnreachable, TableUnsuitable
from kinesis_assets.table.commit_ids import draw_token
from kinesis_assets.table.data_file import FILE_BYTES
from kinesis_assets.table.delta_writer import writer_properties
from kinesis_assets.table.intervals import parse_interval
from kinesis_assets.table.log_entries import KEEP_ENTRIES
from kinesis_assets.table.properties import (
    DELETED_RETENTION,
    HISTORY_PROPERTIES,
    TABLE_PROPERTIES,
    VACUUM_RETENTION,
)
from kinesis_assets.table.refusals import not_writable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from deltalake import DeltaTable

    from kinesis_assets.table.table import PositionedTable

_CLAIM = "kinesis_assets.maintenance"


class Upkeep:
    """What keeps a table quick and small, and changes neither its rows nor its positions.

    Args:
        table: Which; it is opened afresh for each step.
    """

    def __init__(self, table: PositionedTable) -> None:
        self._table = table

    def missing_properties(self) -> dict[str, str]:
        """The table's properties that a new table has and this one does not, unless it has values of its own.

        With another retention than a new table's, of the log or of deleted files, it keeps its history as it
        is.

        Raises as `PositionedTable.snapshot`, here and below.
        """
        standing = self._delta().metadata().configuration
        has_its_own = any(standing.get(name, value) != value for name, value in HISTORY_PROPERTIES.items())
        wanted = TABLE_PROPERTIES.keys() - (HISTORY_PROPERTIES if has_its_own else {})
        return {name: TABLE_PROPERTIES[name] for name in wanted if name not in standing}

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set them by one commit.

        Raises:
            CommitFailed: Another commit was in the way.
        """
        with self._told("its properties cannot be set"):
            self._delta().alter.set_table_properties(
                dict(properties), raise_if_not_exists=False, post_commithook_properties=KEEP_ENTRIES
            )

    def compact(self, arrival_date: str, row_bytes: int) -> tuple[int, int]:
        """Gather one day's smaller files to files of about `FILE_BYTES`, by one commit.

        delta-rs lets two compactions of the same files land both, and their rows are there twice; it
        disregards a transaction identifier too. Each compaction deletes expired entries of the log, by
        this machine's clock: have that checked before.

        Args:
            arrival_date: ISO date.
            row_bytes: Mean size of a row in its files; bounds what is held in memory.

        Returns:
            How many files there are instead of how many.

        Raises:
            CommitFailed: Another commit was in the way; no row is lost or double.
        """
        delta = self._claimed()
        with self._told(f"the files of {arrival_date} cannot be compacted"):
            told = delta.optimize.compact(
                partition_filters=[("arrival_date", "=", arrival_date)],
                target_size=FILE_BYTES,
                max_concurrent_tasks=1,
                writer_properties=writer_properties(row_bytes),
            )
        return int(told["numFilesAdded"]), int(told["numFilesRemoved"])

    def vacuum(self, *, dry_run: bool) -> list[str]:
        """Delete data files that no version of the last `VACUUM_RETENTION` names, and that are older than it.

        A longer retention of the table's own holds, a shorter one does not. Folders whose names begin with an
        underscore are left alone.

        Args:
            dry_run: Only tell.

        Returns:
            Their paths, relative to the table's folder.

        Raises:
            CommitFailed: Another commit was in the way; what was deleted by then was nobody's.
        """
        # Whoever stood still for days between the look at its files and its commit has to look again.
        delta = self._delta() if dry_run else self._claimed()
        own = _hours(self._table.uri, delta.metadata().configuration.get(DELETED_RETENTION))
        with self._told("it cannot be vacuumed"):
            return delta.vacuum(max(VACUUM_RETENTION // timedelta(hours=1), own), dry_run=dry_run, full=True)

    def checkpoint(self) -> None:
        """Sum the log up, and delete what of it is summed up and older than the log's retention.

        Raises:
            TableUnreachable: It cannot be done now.
        """
        delta = self._delta()
        with self._told("its log cannot be summed up"):
            delta.create_checkpoint()
            delta.cleanup_metadata()

    def _delta(self) -> DeltaTable:
        return self._table.snapshot().delta

    def _claimed(self) -> DeltaTable:
        """The table with its metadata marked as this maintenance's own.

        Any commit that began before a change of the metadata is refused (protocol): an older maintenance's
        for good, a run's until it has looked at the table again.
        """
        claim = str(draw_token())
        self.set_properties({_CLAIM: claim})
        delta = self._delta()
        if delta.metadata().configuration.get(_CLAIM) != claim:
            raise CommitFailed(
                self._table.uri, "another maintenance began; nothing was done, run again later"
            )
        return delta

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except (DeltaError, OSError) as error:
            self._raise(what, error)

    def _raise(self, what: str, error: DeltaError | OSError) -> NoReturn:
        if refused := not_writable(self._table.uri, error):
            raise refused from None
        if isinstance(error, CommitFailedError):
            raise CommitFailed(
                self._table.uri, f"{what}: {error}. Nothing was changed, run again later"
            ) from error
        raise TableUnreachable(self._table.uri, f"{what}: {error}") from None


def _hours(table: str, interval: str | None) -> int:
    """Hours of a table property such as `interval 30 days`, rounded up."""
    if interval is None:
        return 0
    span = parse_interval(interval)
    if span is None:
        raise TableUnsuitable(table, f"{DELETED_RETENTION} is {interval!r}; set it as in 'interval 30 days'")
    return -(-span // timedelta(hours=1))
