"""The metadata of a shard's event. The command line prints the same keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

if TYPE_CHECKING:
    from kinesis_assets.ingest.outcome import RunResult, ShardOutcome
    from kinesis_assets.table.positions import Landed


def event_metadata(stream: str, outcome: ShardOutcome, result: RunResult) -> dict[str, Any]:
    """Return the metadata of a shard's event after a run.

    Positions are text in the format of `Position.parse`. Values that Dagster can plot are numbers. Keys
    without a value are omitted.

    Args:
        stream: The stream's name.
        outcome: The shard's outcome.
        result: The result of the whole run.
    """
    facts: dict[str, str | float | None] = {
        "stream": stream,
        "shard": outcome.shard_id,
        "state": str(outcome.state),
        "from": str(outcome.start) if outcome.start else None,
        "through": str(outcome.through) if outcome.through else None,
        "rows": outcome.rows,
        "bytes": outcome.bytes,
        "first_sequence_number": outcome.first_sequence_number,
        "last_sequence_number": outcome.last_sequence_number,
        "checksum": None if outcome.checksum is None else str(outcome.checksum),
        "bad_records": outcome.bad_records,
        "outside_hash_range": outcome.outside_hash_range,
        "lag_ms": outcome.lag_ms,
        "time_to_loss_ms": outcome.time_to_loss_ms,
        "files": outcome.files,
        "seconds": round(result.seconds, 3),
        "table_version": result.version,
        "batch_id": str(result.batch_id),
        "gaps": "; ".join(map(str, outcome.gaps)) or None,
        "error_class": type(outcome.error).__name__ if outcome.error else None,
        "error": str(outcome.error) if outcome.error else None,
    }
    return {name: _value(value) for name, value in facts.items() if value is not None}


def landed_metadata(
    stream: str, shard_id: str, landed: Landed, batch_id: int, *, state: str
) -> dict[str, dg.MetadataValue[Any]]:
    """Return the metadata of a shard's event as far as it can be derived from a commit in the table.

    Args:
        stream: The stream's name.
        shard_id: The shard's id.
        landed: What the commit added for the shard.
        batch_id: The commit's batch id.
        state: The shard's state, as in the event of a run.
    """
    facts: dict[str, str | float] = {
        "stream": stream,
        "shard": shard_id,
        "state": state,
        "from": str(landed.start),
        "through": str(landed.through),
        "rows": landed.rows,
        "bytes": landed.bytes,
        "first_sequence_number": landed.first_sequence_number,
        "last_sequence_number": landed.last_sequence_number,
        "checksum": str(landed.checksum),
        "batch_id": str(batch_id),
    }
    return {name: _value(value) for name, value in facts.items()}


def _value(value: str | float) -> dg.MetadataValue[Any]:
    if isinstance(value, str):
        return dg.MetadataValue.text(value)
    return dg.MetadataValue.int(value) if isinstance(value, int) else dg.MetadataValue.float(value)
