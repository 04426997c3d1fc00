"""Keeping a table quick and small, beside whatever runs commit to it meanwhile.

Every step can be done again, and ended anywhere: the next maintenance goes on. Rows and positions stay as
they are, except that rows older than the table's own retention go, with a floor that says so. Each step that
deletes goes by a clock that the service and this machine agree on, read just before.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from kinesis_assets.table.claims import claim
from kinesis_assets.table.clocks import AgreedClock, machine_time
from kinesis_assets.table.maintenance.compaction import checkpoint, compact, vacuum
from kinesis_assets.table.maintenance.pruning import prune
from kinesis_assets.table.maintenance.retention import expire
from kinesis_assets.table.maintenance.steps import State, Step, done_or_left
from kinesis_assets.table.rewrite_checks import refuse_rewritten
from kinesis_assets.table.upkeep import Upkeep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from kinesis_assets.kinesis.stream import StreamSummary
    from kinesis_assets.table.table import PositionedTable


def maintain(
    table: PositionedTable,
    stream: StreamSummary,
    *,
    retention_days: int | None = None,
    by: str | None = None,
    dry_run: bool = False,
    machine: Callable[[], datetime] = machine_time,
) -> Iterator[Step]:
    """Do, or plan, what is due; nothing is yielded for what is not.

    Args:
        table: The table of one stream.
        stream: Which stream, and the service's clock, as just described.
        retention_days: Rows that arrived on a day (UTC, the service's clock) longer ago are deleted. None
            for never.
        by: Who, for the record of that.
        dry_run: Change nothing.
        machine: This machine's clock.

    Yields:
        Each step when it is done.

    Raises:
        ClocksDisagree: This machine's clock and the service's differ by more than an hour; nothing is deleted
            after that.
        TableOfAnotherStream: The table belongs to another stream; nothing was done.
        TableRewritten: The table was restored or overwritten, and nobody accepted that; nothing was done.
        CommitFailed: The tries to take old rows out are used up.
        TableNotWritable: Nothing can be written to the table; nothing was done.
        TableError: The table cannot be used; what was yielded is done.
    """
    identity = stream.identity
    snapshot = table.snapshot()
    positions = snapshot.positions(identity, or_older=True)
    if positions is not None:
        # What an operator may want to undo a restore, and the log's entry of it, must not be deleted.
        refuse_rewritten(table, snapshot, positions)
    clock = AgreedClock(table.uri, stream.service_time, machine)
    now = clock.now()
    if not dry_run:
        table.require_writable()
        claim(table, identity)
    upkeep = Upkeep(table)
    yield from _set_properties(upkeep, dry_run=dry_run)
    since = None if retention_days is None else now.date() - timedelta(days=retention_days)
    if since is not None:
        yield from expire(table, identity, since, now, by=by, dry_run=dry_run)
    yield from compact(table, upkeep, since, clock, dry_run=dry_run)
    yield from vacuum(table, upkeep, clock, dry_run=dry_run)
    if not dry_run:
        yield from checkpoint(table, upkeep, clock)
    yield from prune(table, identity, clock, dry_run=dry_run)


def _set_properties(upkeep: Upkeep, *, dry_run: bool) -> Iterator[Step]:
    missing = upkeep.missing_properties()
    if not missing:
        return
    step = Step("set properties", ", ".join(sorted(missing)), State.PLANNED)
    yield step if dry_run else done_or_left(step, partial(upkeep.set_properties, missing))
