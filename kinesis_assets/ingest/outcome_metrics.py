"""The metrics of a run: what it committed of each shard, and how far each is from its tip."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.metrics.instruments import (
    BAD_RECORDS,
    CONFLICTS,
    LAG,
    PAYLOAD,
    ROWS,
    SHARD,
    STREAM,
    THROTTLES,
    TIME_TO_LOSS,
)
from kinesis_assets.metrics.recording import record

if TYPE_CHECKING:
    from kinesis_assets.ingest.outcome import RunResult


def record_outcomes(stream: str, result: RunResult) -> None:
    """Record the outcomes of a run, or of an iteration of a continuous run.

    Args:
        stream: The stream's name.
        result: The result.
    """
    for shard_id, outcome in result.outcomes.items():
        shard = {STREAM: stream, SHARD: shard_id}
        record(ROWS, outcome.rows, shard)
        record(PAYLOAD, outcome.stats.bytes if outcome.stats else 0, shard)
        record(BAD_RECORDS, outcome.facts.bad_records, shard)
        record(THROTTLES, outcome.facts.throttles, shard)
        record(CONFLICTS, int(outcome.state is ShardState.CONFLICT), shard)
        # The sensor knows since when a shard that failed waits to be read.
        if outcome.lag_ms is not None and outcome.error is None:
            record(LAG, outcome.lag_ms / 1000, shard)
        if outcome.time_to_loss_ms is not None:
            record(TIME_TO_LOSS, outcome.time_to_loss_ms / 1000, shard)
