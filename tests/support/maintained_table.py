"""Maintenance of a table of `attempts`, at times that a test chooses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kinesis_assets.kinesis.stream import StreamSummary
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.policy import HISTORY_RETENTION
from support.attempts import NOON, STREAM, Attempt, current_positions
from support.table_folder import LOG_ENTRIES, files_of, set_age

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.table.maintenance.steps import Step
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.raw_table import PositionedTable

ARRIVED = datetime.fromtimestamp(NOON, UTC)
"""When the records of `attempts` arrive."""

NOW = ARRIVED + timedelta(days=10)
"""The time of tests that stop the clocks."""


def days_from_now(days: float) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def steps_of(
    table: PositionedTable,
    service: datetime | None = None,
    machine: datetime | Callable[[], datetime] | None = None,
    **options: Any,
) -> dict[tuple[str, str], Step]:
    """Run maintenance, and return its steps by name and object.

    Args:
        service: The time of the service; now by default.
        machine: The time of the machine, or a clock; the time of the service by default.
        options: Other arguments of `maintain`.
    """
    time = service or datetime.now(UTC)
    clock = machine if callable(machine) else lambda: machine or time
    summary = StreamSummary(STREAM, time, retention_hours=24)
    return {(step.step, step.of): step for step in maintain(table, summary, machine=clock, **options)}


def age_log(table: PositionedTable) -> set[str]:
    """Make all entries of the log older than they are kept, and return them."""
    set_age(table, HISTORY_RETENTION + timedelta(hours=1), *files_of(table, "_delta_log/*"))
    return files_of(table, LOG_ENTRIES)


def delete_old_log_entries(table: PositionedTable) -> set[str]:
    """Age the log, commit twice, and run maintenance; return the deleted entries of the log."""
    DeltaOperations(table).checkpoint()
    before = age_log(table)
    for _ in range(2):
        Attempt(table, current_positions(table), {"b": 1}).commit()
    steps_of(table)
    deleted = before - files_of(table, LOG_ENTRIES)
    assert len(deleted) >= len(before) - 1
    return deleted


def amendment_of(table: PositionedTable) -> Amendment | None:
    """Return the newest amendment."""
    return table.snapshot().amendment(STREAM)
