"""The events of a run: one for each shard, and one for the stream as a whole."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.events.metadata import event_metadata, totals_metadata
from kinesis_assets.errors import TableError
from kinesis_assets.ingest.run_totals import RunTotals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.table.table import PositionedTable
    from kinesis_assets.table.table_totals import TableTotals

TOTALS_INTERVAL = 60.0
"""Minimum seconds between two events of the stream as a whole in a continuous run."""

_log = logging.getLogger(__name__)


def shard_events(
    key: dg.AssetKey, stream: str, result: RunResult
) -> Iterator[dg.AssetMaterialization | dg.AssetObservation]:
    """Yield an event for each shard: a materialization, or an observation if the shard failed.

    Args:
        key: The asset that is materialized.
        stream: The stream's name.
        result: The result of the run, or of an iteration of a continuous run.
    """
    for shard_id, outcome in result.outcomes.items():
        metadata = event_metadata(stream, outcome, result)
        if outcome.error is None:
            yield dg.AssetMaterialization(key, partition=shard_id, metadata=metadata)
        else:
            reason = str(outcome.error)
            yield dg.AssetObservation(key, partition=shard_id, description=reason, metadata=metadata)


def totals_event(key: dg.AssetKey, totals: RunTotals, table: PositionedTable) -> dg.AssetObservation:
    """Return the event of the stream as a whole. It has no partition, so no partition is materialized by it.

    Args:
        key: The asset that is materialized.
        totals: The totals of the run.
        table: The stream's table, whose rows are counted in its log.
    """
    return dg.AssetObservation(key, metadata=totals_metadata(totals, totals_of_raw(table)))


def totals_of_raw(table: PositionedTable) -> TableTotals | None:
    """Return the totals of a raw table; None if it cannot be read."""
    from kinesis_assets.table.table_totals import table_totals  # noqa: PLC0415  # only runs need it

    try:
        return table_totals(table.snapshot().delta)
    except TableError as error:
        _log.warning("the event does not have the rows of the table: %s", error)
        return None


class TotalsReport:
    """Reports the totals of a continuous run at a fixed interval, and at the end of the context.

    Each report has what was committed since the one before it. Nothing is reported while nothing is committed
    and the number of failed shards stays the same.

    Args:
        report: Reports totals.
        interval: Minimum seconds between two reports.
        clock: Returns seconds of a monotonic clock.
    """

    def __init__(
        self,
        report: Callable[[RunTotals], object],
        *,
        interval: float = TOTALS_INTERVAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._report = report
        self._interval = interval
        self._clock = clock
        self._totals = RunTotals()
        self._failed = 0
        self._due = clock() + interval

    def add(self, result: RunResult) -> None:
        """Add the result of an iteration, and report the totals if they are due."""
        self._totals.add(result)
        if self._clock() >= self._due:
            self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def flush(self) -> None:
        """Report the totals now, if there is anything to report."""
        self._due = self._clock() + self._interval
        if self._totals.rows or self._totals.failed != self._failed:
            self._report(self._totals)
            self._failed = self._totals.failed
            self._totals.start_again()
