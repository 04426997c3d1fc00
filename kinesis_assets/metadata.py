"""What an event tells of a shard. The command line prints the same names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

if TYPE_CHECKING:
    from kinesis_assets.run import RunResult, ShardOutcome


def shard_facts(stream: str, outcome: ShardOutcome) -> dict[str, Any]:
    """One shard of a run, as plain values: text, numbers and None.

    `from` and `through` are positions as `Position.parse` reads them.
    """
    return {
        "stream": stream,
        "shard": outcome.shard_id,
        "state": str(outcome.state),
        "from": None if outcome.start is None else str(outcome.start),
        "through": None if outcome.through is None else str(outcome.through),
        "rows": outcome.rows,
        "bytes": outcome.bytes,
        "lag_ms": outcome.lag_ms,
        "error": None if outcome.error is None else str(outcome.error),
    }


def event_metadata(stream: str, outcome: ShardOutcome, result: RunResult) -> dict[str, Any]:
    """A shard's metadata in its event: positions are text, what should plot is a number; no nulls."""
    facts = shard_facts(stream, outcome) | {
        "files": outcome.files,
        "seconds": round(result.seconds, 3),
        "table_version": result.version,
    }
    return {name: _value(value) for name, value in facts.items() if value is not None}


def _value(value: str | float) -> dg.MetadataValue[Any]:
    if isinstance(value, str):
        return dg.MetadataValue.text(value)
    return dg.MetadataValue.int(value) if isinstance(value, int) else dg.MetadataValue.float(value)
