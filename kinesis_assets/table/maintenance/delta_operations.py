"""The operations of Delta Lake that maintenance uses; none changes the table's rows or positions."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from deltalake.exceptions import CommitFailedError, DeltaError

from kinesis_assets.errors import CommitFailed, TableUnreachable, TableUnsuitable
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.data_file import FILE_BYTES
from kinesis_assets.table.delta.log import log_files
from kinesis_assets.table.delta.raw_table import writer_properties
from kinesis_assets.table.delta.version import KEEP_ENTRIES, TableVersion
from kinesis_assets.table.maintenance.steps import State, Step, compact_each, done_or_left, totals
from kinesis_assets.table.policy import (
    DELETED_RETENTION,
    HISTORY_PROPERTIES,
    TABLE_PROPERTIES,
    VACUUM_RETENTION,
    parse_interval,
)
from kinesis_assets.table.store.storage import not_writable, tables_below

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from deltalake import DeltaTable

    from kinesis_assets.table.clocks import AgreedClock
    from kinesis_assets.table.data_file import TableFile
    from kinesis_assets.table.stored_table import StoredTable


_CLAIM = "kinesis_assets.maintenance"


class DeltaOperations:
    """Compaction, vacuum, checkpoints and properties of one table, through delta-rs.

    Each operation opens the newest version of the table, and also raises as its `snapshot`.
    """

    def __init__(self, table: StoredTable) -> None:
        self._table = table

    def missing_properties(self) -> dict[str, str]:
        """Return the properties of a new raw table that this one lacks.

        A table with another retention than a new table's, of the log or of deleted files, keeps its own
        values of both.
        """
        current = self._version().properties
        differs = any(current.get(name, value) != value for name, value in HISTORY_PROPERTIES.items())
        wanted = TABLE_PROPERTIES.keys() - (HISTORY_PROPERTIES if differs else {})
        return {name: TABLE_PROPERTIES[name] for name in wanted if name not in current}

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set properties of the table in one commit.

        Raises:
            CommitFailed: Another commit conflicted with this one.
        """
        with self._raising("its properties cannot be set"):
            self._delta().alter.set_table_properties(
                dict(properties), raise_if_not_exists=False, post_commithook_properties=KEEP_ENTRIES
            )

    def compact(self, arrival_date: str, row_bytes: int) -> None:
        """Merge the small files of one day of a raw table into files of about `FILE_BYTES`, in one commit.

        The table is claimed first, because delta-rs accepts two concurrent compactions of the same files,
        which duplicates their rows, and ignores transaction identifiers in a compaction. Each compaction also
        deletes expired log entries by this machine's clock, so check that clock before.

        Args:
            arrival_date: The day, as an ISO date.
            row_bytes: Mean size of a row in the day's files, in bytes; it bounds memory use.

        Raises:
            CommitFailed: Another commit conflicted with this one; no row was lost or duplicated.
        """
        delta = self._claimed()
        with self._raising(f"the files of {arrival_date} cannot be compacted"):
            delta.optimize.compact(
                partition_filters=[("arrival_date", "=", arrival_date)],
                target_size=FILE_BYTES,
                max_concurrent_tasks=1,
                writer_properties=writer_properties(row_bytes),
            )

    def vacuum(self, *, dry_run: bool) -> list[str]:
        """Delete data files older than `VACUUM_RETENTION` that no version within that time names.

        If the table's own retention of deleted files is longer, it applies instead. Folders whose names start
        with an underscore are not touched. Returns the paths of the files, relative to the table's folder.

        Raises:
            CommitFailed: Another commit conflicted with this one; files that were deleted before belonged to
                no version.
        """
        # The claim makes a commit fail that checked its files before the vacuum and paused for days.
        delta = self._delta() if dry_run else self._claimed()
        table_hours = _hours(self._table.uri, delta.metadata().configuration.get(DELETED_RETENTION))
        hours = max(VACUUM_RETENTION // timedelta(hours=1), table_hours)
        with self._raising("it cannot be vacuumed"):
            return delta.vacuum(hours, dry_run=dry_run, full=True)

    def checkpoint(self) -> None:
        """Write a checkpoint of the log, and delete entries that are older than the log's retention.

        Raises:
            TableUnreachable: The checkpoint cannot be written at the moment.
        """
        delta = self._delta()
        with self._raising("a checkpoint of its log cannot be written"):
            delta.create_checkpoint()
            delta.cleanup_metadata()

    def _delta(self) -> DeltaTable:
        return self._version().delta

    def _version(self) -> TableVersion:
        opened = self._table.snapshot()
        if not isinstance(opened, TableVersion):
            raise TableUnsuitable(self._table.uri, "is not a Delta table")
        return opened

    def _claimed(self) -> DeltaTable:
        """Open the table after marking its metadata as this maintenance's.

        Delta refuses any commit that is based on a version before a change of the metadata. So an older
        maintenance fails, and a run reads the table again before its next attempt.
        """
        claim = str(new_id())
        self.set_properties({_CLAIM: claim})
        delta = self._delta()
        if delta.metadata().configuration.get(_CLAIM) != claim:
            raise CommitFailed(
                self._table.uri, "another maintenance has started; nothing was done, run again later"
            )
        return delta

    @contextmanager
    def _raising(self, failure: str) -> Iterator[None]:
        """Raise the package's errors in place of those of delta-rs."""
        uri = self._table.uri
        try:
            yield
        except (DeltaError, OSError) as error:
            if refused := not_writable(uri, error):
                raise refused from None
            failure = f"{failure}: {error}"
            if isinstance(error, CommitFailedError):
                raise CommitFailed(uri, f"{failure}. Nothing was changed, run again later") from error
            raise TableUnreachable(uri, failure) from None


def _hours(table: str, interval: str | None) -> int:
    """Return the hours of a table property such as `interval 30 days`, rounded up; 0 if it is not set."""
    if interval is None:
        return 0
    duration = parse_interval(interval)
    if duration is None:
        raise TableUnsuitable(table, f"{DELETED_RETENTION} is {interval!r}; set it as in 'interval 30 days'")
    return -(-duration // timedelta(hours=1))


def compact(
    table: StoredTable, due: Mapping[str, Sequence[TableFile]], clock: AgreedClock, *, dry_run: bool
) -> Iterator[Step]:
    """Compact each day of a raw table that is due, see `due_days`. Raises as `compact_each`."""

    def compact_day(day: str) -> None:
        rows, _, size = totals(due[day])
        DeltaOperations(table).compact(day, size // max(1, rows))

    return compact_each(due, compact_day, clock, dry_run=dry_run)


def vacuum(table: StoredTable, clock: AgreedClock, *, dry_run: bool) -> Iterator[Step]:
    """Delete data files that no recent version of the table names.

    If another table is in a subfolder, nothing is deleted: delta-rs would delete the files of both.

    Raises:
        ClocksDisagree: The clocks differ, which is checked before.
    """
    operations = DeltaOperations(table)
    paths = operations.vacuum(dry_run=True)
    if not paths:
        return
    size = sum(info.size or 0 for info in table.files.get_file_info(paths))
    step = Step("vacuum", "data files", State.PLANNED, 0, len(paths), size)
    if others := tables_below(table.files):
        reason = f"{others[0]} in its folder is another table; move it to a folder outside of all others"
        yield replace(step, state=State.LEFT, reason=reason)
        return
    clock.now()  # delta-rs compares the ages of files with this machine's clock
    yield step if dry_run else done_or_left(step, partial(operations.vacuum, dry_run=False))


def checkpoint(table: StoredTable, clock: AgreedClock) -> Iterator[Step]:
    """Write a checkpoint of the log, and delete expired entries. Raises as `vacuum`."""
    before = log_files(table.files)
    clock.now()
    DeltaOperations(table).checkpoint()
    left = {info.path for info in log_files(table.files)}
    deleted = [info for info in before if info.path not in left]
    yield Step("checkpoint", "_delta_log", State.DONE, 0, len(deleted), sum(info.size for info in deleted))
