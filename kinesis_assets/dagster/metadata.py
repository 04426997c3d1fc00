"""The metadata of a shard's event. The command line prints the same keys.

Positions are text in the format of `Position.parse`. Values that Dagster can plot are numbers. Keys without a
value are omitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

if TYPE_CHECKING:
    from kinesis_assets.ingest.outcome import RunResult, ShardOutcome
    from kinesis_assets.replay.outcome import ReplayOutcome, ReplayResult
    from kinesis_assets.table.range_stats import RangeStats


def event_metadata(stream: str, outcome: ShardOutcome, result: RunResult) -> dict[str, dg.MetadataValue[Any]]:
    """Return the metadata of a shard's event after a run.

    Args:
        stream: The stream's name.
        outcome: The shard's outcome.
        result: The result of the whole run.
    """
    return _metadata(
        stream,
        outcome.shard_id,
        outcome.state,
        outcome.stats,
        bad_records=outcome.bad_records,
        outside_hash_range=outcome.outside_hash_range,
        lag_ms=outcome.lag_ms,
        time_to_loss_ms=outcome.time_to_loss_ms,
        files=outcome.files,
        seconds=round(result.seconds, 3),
        table_version=result.version,
        batch_id=str(result.batch_id),
        gaps="; ".join(map(str, outcome.gaps)) or None,
        error_class=type(outcome.error).__name__ if outcome.error else None,
        error=str(outcome.error) if outcome.error else None,
    )


def replay_metadata(
    stream: str, outcome: ReplayOutcome, result: ReplayResult
) -> dict[str, dg.MetadataValue[Any]]:
    """Return the metadata of a shard's event after a replay.

    Args:
        stream: The stream's name.
        outcome: The shard's outcome.
        result: The result of the whole replay.
    """
    return _metadata(
        stream,
        outcome.shard_id,
        outcome.state,
        outcome.stats,
        gaps_filled=outcome.gaps_filled or None,
        seconds=round(result.seconds, 3),
        table_version=result.version,
        batch_id=str(result.batch_id) if outcome.rows else None,
        error_class=type(outcome.error).__name__ if outcome.error else None,
        error=str(outcome.error) if outcome.error else None,
    )


def commit_metadata(
    stream: str, shard_id: str, state: str, stats: RangeStats, batch_id: int
) -> dict[str, dg.MetadataValue[Any]]:
    """Return the metadata of a shard's event as far as it can be derived from a commit in the table.

    Args:
        stream: The stream's name.
        shard_id: The shard's id.
        state: The shard's state, as in the event of the run or replay that made the commit.
        stats: The range whose rows the commit added.
        batch_id: The commit's batch id.
    """
    return _metadata(stream, shard_id, state, stats, batch_id=str(batch_id))


def _metadata(
    stream: str, shard_id: str, state: str, stats: RangeStats | None, **more: str | float | None
) -> dict[str, dg.MetadataValue[Any]]:
    """Return the metadata of a shard's event.

    Args:
        stream: The stream's name.
        shard_id: The shard's id.
        state: The shard's state.
        stats: The facts about the range; None if there was no range.
        more: The facts that not every event has.
    """
    facts = {"stream": stream, "shard": shard_id, "state": str(state), **_range_facts(stats), **more}
    return {name: _value(value) for name, value in facts.items() if value is not None}


def _range_facts(stats: RangeStats | None) -> dict[str, str | float | None]:
    if stats is None:
        return {"rows": 0, "bytes": 0}
    return {
        "from": str(stats.start),
        "through": str(stats.through),
        "rows": stats.rows,
        "bytes": stats.bytes,
        "first_sequence_number": stats.first_sequence_number,
        "last_sequence_number": stats.last_sequence_number,
        "checksum": str(stats.checksum) if stats.rows else None,
    }


def _value(value: str | float) -> dg.MetadataValue[Any]:
    if isinstance(value, str):
        return dg.MetadataValue.text(value)
    return dg.MetadataValue.int(value) if isinstance(value, int) else dg.MetadataValue.float(value)
