"""Keeps a table fast and small while runs commit to it.

Every step can be repeated, and interrupted at any point: the next maintenance continues. Rows and positions
do not change, except that rows older than the table's retention are deleted, which the floor records. Each
step that deletes something first reads a clock that the service and this machine agree on.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from kinesis_assets.table.clocks import AgreedClock, machine_time
from kinesis_assets.table.commits.commit import claim
from kinesis_assets.table.delta.raw_table import DeltaFormat
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations, checkpoint, compact, vacuum
from kinesis_assets.table.maintenance.pruning import prune
from kinesis_assets.table.maintenance.retention import NOT_NEEDED, Needed, expire
from kinesis_assets.table.maintenance.steps import DEFAULT_LIMITS, State, Step, done_or_left, due_days
from kinesis_assets.table.rewrites import refuse_rewritten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from kinesis_assets.kinesis.stream import StreamSummary
    from kinesis_assets.table.maintenance.steps import MaintenanceLimits
    from kinesis_assets.table.raw_table import PositionedTable


def maintain(
    table: PositionedTable,
    stream: StreamSummary,
    *,
    retention_days: int | None = None,
    needed: Needed = NOT_NEEDED,
    by: str | None = None,
    dry_run: bool = False,
    machine: Callable[[], datetime] = machine_time,
    limits: MaintenanceLimits = DEFAULT_LIMITS,
) -> Iterator[Step]:
    """Carry out, or plan, the steps that are due.

    Args:
        stream: The stream and the service's time, as just described by the service.
        retention_days: Rows that arrived more than this many days ago (UTC, by the service's clock) are
            deleted. None keeps all rows.
        needed: Which of them are kept longer.
        by: The run or person that is recorded as deleting them.
        machine: This machine's clock.

    Yields:
        Each step after it is done. A step that is not due is not yielded.

    Raises:
        ClocksDisagree: This machine's clock and the service's differ by more than an hour; nothing more was
            deleted.
        TableOfAnotherStream: The table belongs to another stream; nothing was done.
        TableRewritten: The table was restored or overwritten, which was not accepted; nothing was done.
        CommitFailed: All attempts to delete old rows failed.
        TableNotWritable: Writing to the table is refused; nothing was done.
        TableError: The table cannot be used; the steps that were yielded are done.
    """
    identity = stream.identity
    snapshot = table.snapshot()
    positions = snapshot.positions(identity, or_older=True)
    if positions is not None:
        # Files that may be needed to undo a restore, and its log entry, must not be deleted.
        refuse_rewritten(table, snapshot, positions)
    clock = AgreedClock(table.uri, stream.service_time, machine)
    now = clock.now()
    if not dry_run:
        table.require_writable()
        claim(table, identity)
    is_delta = isinstance(table.format, DeltaFormat)
    if is_delta:
        yield from _set_properties(table, dry_run=dry_run)
    else:
        from kinesis_assets.table.maintenance import iceberg_steps  # noqa: PLC0415  # loads pyiceberg

        # Readers may still use what the later steps remove, so that is left for the next maintenance.
        yield from iceberg_steps.vacuum(table, clock, dry_run=dry_run)
    since = None if retention_days is None else now.date() - timedelta(days=retention_days)
    if since is not None:
        wanted, since = since, needed.first_kept(since)
        yield from expire(table, identity, since, now, by=by, dry_run=dry_run)
        if since < wanted:
            yield Step("expire", f"before {wanted}", State.LEFT, reason=needed.reason(since))
    due = due_days(table, since, clock, limits)
    if is_delta:
        yield from compact(table, due, clock, dry_run=dry_run)
        yield from vacuum(table, clock, dry_run=dry_run)
        if not dry_run:
            yield from checkpoint(table, clock)
    else:
        yield from iceberg_steps.compact(table, due, clock, dry_run=dry_run)
    yield from prune(table, identity, clock, limits, dry_run=dry_run)


def _set_properties(table: PositionedTable, *, dry_run: bool) -> Iterator[Step]:
    operations = DeltaOperations(table)
    missing = operations.missing_properties()
    if not missing:
        return
    step = Step("set properties", ", ".join(sorted(missing)), State.PLANNED)
    yield step if dry_run else done_or_left(step, partial(operations.set_properties, missing))
