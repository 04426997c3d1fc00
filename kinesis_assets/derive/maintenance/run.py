"""Performs the due maintenance of a derived table, in the order of its steps.

Every step is a commit of its own, or deletes files that nothing refers to. A process that dies between two
steps leaves the rest to the next maintenance. Neither rows nor positions change, so tables that are derived
from this one go on exactly where they were, unless they are further behind than the records that are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.derive.features import refuse_unreadable
from kinesis_assets.derive.maintenance.compaction import compact
from kinesis_assets.derive.maintenance.pruning import prune
from kinesis_assets.derive.rewritten import refuse_rewritten
from kinesis_assets.table.clocks import AgreedClock, machine_time
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations, checkpoint, vacuum
from kinesis_assets.table.maintenance.steps import DEFAULT_LIMITS
from kinesis_assets.table.store.suitability import require_writable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from kinesis_assets.derive.derived_table import DerivedTable
    from kinesis_assets.table.maintenance.steps import MaintenanceLimits, Step


def maintain(
    table: DerivedTable,
    service_time: datetime,
    *,
    dry_run: bool = False,
    machine: Callable[[], datetime] = machine_time,
    limits: MaintenanceLimits = DEFAULT_LIMITS,
) -> Iterator[Step]:
    """Carry out, or plan, the steps that are due.

    Args:
        table: The table.
        service_time: The time of the service of its stream, as just returned.
        dry_run: Change nothing.
        machine: This machine's clock.
        limits: From how many files on a step is due.

    Yields:
        Each step after it is done. A step that is not due is not yielded.

    Raises:
        ClocksDisagree: This machine's clock and the service's differ by more than an hour; nothing more was
            deleted.
        TableMissing: The table does not exist yet.
        TableRewritten: The table was restored or overwritten; nothing was done.
        TableUnsuitable: The table is not a derived table, or has deletion vectors or column mapping; nothing
            was done.
        TableNotWritable: Writing to the table is refused; nothing was done.
        TableError: The table cannot be used; the steps that were yielded are done.
    """
    snapshot = table.snapshot()
    refuse_unreadable(table.uri, snapshot.delta)  # delta-rs would delete the files of deletion vectors
    # Files that may be needed to undo a restore, and its log entry, must not be deleted.
    refuse_rewritten(snapshot)
    clock = AgreedClock(table.uri, service_time, machine)
    clock.now()
    if not dry_run:
        require_writable(table.uri, table.files)
    operations = DeltaOperations(table)
    yield from compact(table, clock, limits, dry_run=dry_run)
    yield from vacuum(table, operations, clock, dry_run=dry_run)
    if not dry_run:
        yield from checkpoint(table, operations, clock)
    yield from prune(table, clock, limits, dry_run=dry_run)
