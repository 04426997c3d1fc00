"""The cursor of a stream's sensor."""

from __future__ import annotations

import msgspec

from kinesis_assets.dagster.checks.derived_evaluation import DerivedProgress
from kinesis_assets.dagster.checks.evaluation import ChecksProgress
from kinesis_assets.dagster.events.missing_events import ComparisonProgress
from kinesis_assets.dagster.sensor.due_shards import Signal
from kinesis_assets.dagster.sensor.sensor_runs import Failing, Liveness, ShardBackoff
from kinesis_assets.dagster.sensor.stream_observation import Observed


class Cursor(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of the sensor from tick to tick. If it is lost, the sensor only repeats work.

    Attributes:
        last_requested: The last shard that a tick requested, stored as `last_asked`. Partition ranges after
            it come first, so that each gets its turn if there are more ranges than runs in a tick.
        backoff: The shards whose runs fail.
        commits: How far the commits of positions were compared with the events.
        fills: The same for the commits that changed rows behind the positions.
        liveness: When the unfinished runs last showed a sign of life.
        derived_liveness: The same of the runs that materialize only derived tables.
        signals: What was found in shards that were idle, see `DueShards`.
        observed: The last observation of the stream.
        checks: What the asset checks of the raw table remember.
        derived_checks: What those of each derived table remember, by `CheckedTable.name`.
        failing_tables: The derived tables whose last run failed, by asset key.
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

    @property
    def waiting_to_be_read(self) -> set[str]:
        """The shards that wait to be read: their last run failed, or something has arrived in them."""
        found = {shard_id for shard_id, signal in self.signals.items() if not signal.refuted}
        return found.union(self.backoff.shards)

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
