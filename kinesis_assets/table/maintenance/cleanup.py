"""The steps that delete data files and log entries that are no longer needed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kinesis_assets.table.maintenance.steps import State, Step, done_or_left
from kinesis_assets.table.store.storage import files_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.table.clocks import AgreedClock
    from kinesis_assets.table.maintenance.delta_operations import DeltaOperations, MaintainedTable


def vacuum(
    table: MaintainedTable, operations: DeltaOperations, clock: AgreedClock, *, dry_run: bool
) -> Iterator[Step]:
    """Delete data files that no recent version of the table names.

    Args:
        table: The table.
        operations: Its operations of Delta Lake.
        clock: The clock that is checked before.
        dry_run: Change nothing.

    Yields:
        The step, if there are such files.

    Raises:
        ClocksDisagree: The clocks differ.
    """
    paths = operations.vacuum(dry_run=True)
    if not paths:
        return
    size = sum(info.size or 0 for info in table.files.get_file_info(paths))
    step = Step("vacuum", "data files", State.PLANNED, 0, len(paths), size)
    clock.now()  # delta-rs compares the ages of files with this machine's clock
    yield step if dry_run else done_or_left(step, partial(operations.vacuum, dry_run=False))


def checkpoint(table: MaintainedTable, operations: DeltaOperations, clock: AgreedClock) -> Iterator[Step]:
    """Write a checkpoint of the log, and delete expired entries. Raises as `vacuum`."""
    before = files_in(table.files, "_delta_log")
    clock.now()
    operations.checkpoint()
    left = {info.path for info in files_in(table.files, "_delta_log")}
    deleted = [info for info in before if info.path not in left]
    yield Step("checkpoint", "_delta_log", State.DONE, 0, len(deleted), sum(info.size for info in deleted))
