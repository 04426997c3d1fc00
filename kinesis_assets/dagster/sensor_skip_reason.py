"""Why a tick of the sensor requests no run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kinesis_assets.dagster.sensor_runs import DEAD

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kinesis_assets.dagster.sensor_backoff import Failing

_NAMED = 5
"""How many shards the reason names. It counts the others."""


def skip_reason(waiting: Mapping[str, Failing], dead: Collection[str]) -> str:
    """Return why a tick requests no run."""
    dead_runs = [DEAD % run_id for run_id in sorted(dead)]
    if not waiting:
        return "; ".join(["every readable shard has an unfinished run", *dead_runs])
    first = sorted(waiting.items(), key=lambda item: item[1].until)
    named = [_waits(shard_id, failing) for shard_id, failing in first[:_NAMED]]
    more = [f"{len(first) - _NAMED} more wait"] if len(first) > _NAMED else []
    return "; ".join(["every other readable shard has an unfinished run", *named, *more, *dead_runs])


def _waits(shard_id: str, failing: Failing) -> str:
    """Return why a shard waits, and until when."""
    until = datetime.fromtimestamp(failing.until, UTC)
    runs = "its last run" if failing.runs == 1 else f"its last {failing.runs} runs"
    return f"{shard_id} waits until {until:%Y-%m-%dT%H:%M:%SZ}: {runs} failed, the last was {failing.run_id}"
