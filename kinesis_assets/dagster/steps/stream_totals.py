"""The events of the stream as a whole in a run or after a replay. They follow those of the shards."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.checks.shard_checks import latest_time
from kinesis_assets.dagster.events.metadata import totals_metadata
from kinesis_assets.dagster.sensor.sensor_cursor import sensor_memory
from kinesis_assets.errors import ShardThrottled, TableError
from kinesis_assets.ingest.idle_shards import loss_times
from kinesis_assets.ingest.outcome import RunTotals, StreamState
from kinesis_assets.ingest.plan import gaps_to_fill

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet
    from typing import Self

    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.kinesis.stream import StreamSummary
    from kinesis_assets.table.positions.positions import ShardPosition
    from kinesis_assets.table.stored_table import TableTotals

TABLE_INTERVAL = 60.0
"""Seconds for which the events of a continuous run go on with what they have read of the table."""

_log = logging.getLogger(__name__)


class TotalsEvents:
    """Makes the events of the stream as a whole in one run, or in one replay.

    Such an event has no partition. It is a materialization, because the asset's page shows the metadata of
    the latest one; but an observation if the run read nothing, because nothing is materialized then.
    """

    def __init__(
        self,
        key: dg.AssetKey,
        stream: OpenStream,
        instance: dg.DagsterInstance,
        summary: StreamSummary,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._key = key
        self._stream = stream
        self._instance = instance
        self._summary = summary
        self._clock = clock
        self._read_at = -inf
        self._shards: Mapping[str, ShardPosition] = {}
        self._failing: AbstractSet[str] = frozenset()
        self._losses: Mapping[str, datetime] = {}
        self._table: TableTotals | None = None

    def event(
        self,
        totals: RunTotals | None,
        failed: AbstractSet[str] = frozenset(),
        by_get_records: Mapping[str, str] = MappingProxyType({}),
    ) -> dg.AssetMaterialization | dg.AssetObservation:
        """Return the event of what was committed since the one before.

        Args:
            totals: What a run committed; None if a replay added rows.
            by_get_records: Why some are read with GetRecords instead of a consumer, by shard id.
        """
        outcomes = {} if totals is None else totals.outcomes
        now = self._clock()
        if now - self._read_at >= TABLE_INTERVAL:
            self._read_at = now
            self._read(now)
        elif totals is not None and self._table is not None and self._table.rows is not None:
            self._table = replace(self._table, rows=self._table.rows + totals.rows)
        state = None
        if self._shards:
            failing = failed | (self._failing - outcomes.keys())
            time = latest_time(self._shards, self._summary.service_time, datetime.fromtimestamp(now, UTC))
            state = StreamState.of(self._shards, outcomes, failing, self._losses, time)
        is_added = totals is None or totals.has_success
        kind = dg.AssetMaterialization if is_added else dg.AssetObservation
        return kind(self._key, metadata=totals_metadata(totals, state, self._table, by_get_records))

    def _read(self, now: float) -> None:
        """Read the table, and what the sensor knows about shards of other runs."""
        self._failing = sensor_memory(self._instance, self._stream.names).failing_at(now).keys()
        try:
            snapshot = self._stream.table.snapshot()
            identity = self._summary.identity
            positions = snapshot.positions(identity, or_older=True)
            self._table = snapshot.totals()
        except TableError as error:
            _log.warning("the event does not have the state of all shards: %s", error)
        else:
            self._shards = {} if positions is None else positions.shards
            self._losses = loss_times(self._shards, gaps_to_fill(snapshot, identity, self._shards))


class TotalsReport:
    """Reports the totals of a continuous run, also at the end of the context.

    They are reported after each report of shards, because the asset's page shows the latest event, and when
    shards cease to fail. Each report has what was committed since the one before it.
    """

    def __init__(self, report: Callable[[RunTotals, AbstractSet[str]], object]) -> None:
        self._report = report
        self._totals = RunTotals()
        self._failing: set[str] = set()
        self._due = False

    def add_reported(self, result: RunResult) -> None:
        """Note the outcomes that were reported. A shard that is throttled between its rows does not fail."""
        self._due = True
        self._totals.outcomes.update(result.outcomes)  # `add` does not follow if the iteration is cut off
        self._failing |= {
            shard_id
            for shard_id in RunTotals.of(result).failed
            if not (isinstance(result.errors[shard_id], ShardThrottled) and result.outcomes[shard_id].rows)
        }

    def add(self, result: RunResult) -> None:
        """Add the result of an iteration, and report the totals if they are due."""
        self._totals.add(result)
        ceased = self._failing & (result.outcomes.keys() - result.errors.keys())
        self._failing -= ceased
        self._due = self._due or bool(ceased)
        self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def flush(self) -> None:
        """Report the totals now, if they are due."""
        if self._due:
            self._report(self._totals, frozenset(self._failing))
            self._due = False
            self._totals.start_again()
