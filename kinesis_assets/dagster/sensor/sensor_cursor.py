"""The cursor of a stream's sensor, and what those who evaluate checks outside of it read there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.dagster.checks.derived_evaluation import DerivedProgress
from kinesis_assets.dagster.checks.evaluation import ChecksProgress
from kinesis_assets.dagster.dagster_internals import locations_of_sensor, sensor_cursors
from kinesis_assets.dagster.events.missing_events import ComparisonProgress
from kinesis_assets.dagster.sensor.due_shards import Signal
from kinesis_assets.dagster.sensor.sensor_runs import Failing, Liveness, ShardBackoff, unfinished_runs
from kinesis_assets.dagster.sensor.tick_reports import Observed
from kinesis_assets.table.run_files.heartbeat import heartbeats

if TYPE_CHECKING:
    from collections.abc import Mapping

    import dagster as dg

    from kinesis_assets.dagster.stream_names import StreamNames
    from kinesis_assets.table.raw_table import PositionedTable


def waiting_to_be_read(signals: Mapping[str, Signal], backoff: ShardBackoff) -> set[str]:
    """Return the shards that wait to be read: their last run failed, or something has arrived in them."""
    found = {shard_id for shard_id, signal in signals.items() if not signal.refuted}
    return found.union(backoff.shards)


SENSOR_SILENT = 600.0
"""Seconds after its last tick from which the sensor counts as stopped."""


def is_recent(tick: float | None, now: float) -> bool:
    """Return whether a tick, if there was one, was a short time ago. Both are in seconds since the epoch."""
    return tick is not None and abs(now - tick) < SENSOR_SILENT


class Cursor(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of the sensor from tick to tick. If it is lost, the sensor only repeats work.

    Attributes:
        last_requested: The last shard that a tick requested, stored as `last_asked`. Partition ranges after
            it come first, so that each gets its turn if there are more ranges than runs in a tick.
        commits: How far the commits of positions were compared with the events.
        fills: The same for the commits that changed rows behind the positions.
        derived_liveness: The liveness of the runs that materialize only derived tables.
        signals: What was found in shards that were idle, see `DueShards`.
        derived_checks: What the checks of each derived table remember, by `CheckedTable.name`.
        failing_tables: The derived tables whose last run failed, by asset key.
        stream: The asset key of the stream; None in the cursor of an older version. Streams of several code
            locations, such as `orders-eu` and `orders_eu`, may have sensors of the same name.
    """

    last_requested: str | None = msgspec.field(default=None, name="last_asked")
    backoff: ShardBackoff = ShardBackoff()
    commits: ComparisonProgress = ComparisonProgress()
    fills: ComparisonProgress = ComparisonProgress()
    liveness: Liveness = Liveness()
    signals: dict[str, Signal] = {}
    observed: Observed = Observed()
    checks: ChecksProgress = ChecksProgress()
    derived_liveness: Liveness = Liveness()
    derived_checks: dict[str, DerivedProgress] = {}
    failing_tables: dict[str, Failing] = {}
    stream: str | None = None

    def is_of(self, names: StreamNames) -> bool:
        """Return whether the cursor is of a stream's sensor, as far as is known."""
        return self.stream in {None, names.partitions_name}

    def is_recent(self, now: float) -> bool:
        """Return whether the sensor has ticked a short time before a time, in seconds since the epoch."""
        return is_recent(self.checks.at, now)

    def failing_at(self, now: float) -> Mapping[str, str]:
        """Return the shards whose last run failed; none if it knows of no later runs."""
        return self.backoff.reasons if self.is_recent(now) else {}

    def waiting_at(self, now: float) -> set[str]:
        """Return the shards that wait to be read; none if it knows of no later runs."""
        return waiting_to_be_read(self.signals, self.backoff) if self.is_recent(now) else set()

    def has_other_runs_than(self, before: Cursor) -> bool:
        """Whether runs of derived tables have ended or shown a sign of life since an earlier cursor."""
        return (
            self.failing_tables != before.failing_tables
            or self.derived_liveness.signs != before.derived_liveness.signs
        )

    @classmethod
    def parse(cls, text: str | None) -> Cursor:
        """Read what `encode` returned. An older version stored only the last shard."""
        if not text or not text.startswith("{"):
            return cls(last_requested=text)
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError:
            return cls()

    def encode(self) -> str:
        """Return the cursor as JSON."""
        return msgspec.json.encode(self).decode()


def sensor_memory(instance: dg.DagsterInstance, names: StreamNames) -> Cursor:
    """Return the newest cursor of a stream's sensor; an empty one if it has never ticked."""
    return max(_cursors(instance, names), key=lambda cursor: cursor.checks.at or 0.0, default=Cursor())


def locations_of_stream(instance: dg.DagsterInstance, names: StreamNames, now: float) -> list[str]:
    """Return the code locations in which a stream's sensor was evaluated in the last few intervals."""
    found = locations_of_sensor(instance, names.sensor, now)
    return sorted(location for location, text in found.items() if Cursor.parse(text).is_of(names))


def dead_runs(instance: dg.DagsterInstance, names: StreamNames, table: PositionedTable) -> set[str]:
    """Return the unfinished runs that were dead at the sensor's last tick and have had no heartbeat since.

    It is for commands, which inspect an instance only once: that a run is silent shows over several ticks.

    Raises:
        OSError: The heartbeats cannot be listed.
    """
    signs = {
        run_id: sign
        for cursor in _cursors(instance, names)
        for run_id, sign in cursor.liveness.signs.items()
        if sign.is_dead
    }
    if not signs:
        return set()
    beats = heartbeats(table)
    unfinished = {record.dagster_run.run_id for record in unfinished_runs(instance, names)}
    return {
        run_id
        for run_id, sign in signs.items()
        if run_id in unfinished and beats.get(run_id, sign.beat) == sign.beat
    }


def _cursors(instance: dg.DagsterInstance, names: StreamNames) -> list[Cursor]:
    """Return the cursors of a stream's sensor: one for each code location that has defined it."""
    cursors = map(Cursor.parse, sensor_cursors(instance, names.sensor))
    return [cursor for cursor in cursors if cursor.is_of(names)]
