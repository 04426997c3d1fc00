"""Why a tick of the sensor requests no run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kinesis_assets.dagster.sensor.sensor_runs import DEAD

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kinesis_assets.dagster.sensor.sensor_backoff import Failing
    from kinesis_assets.errors import StreamError

_NAMED = 5
"""How many shards and tables the reason names. It counts the others."""

_SHARED = (
    "code locations %s define the stream, so each waits for the runs of the others. Define it in one; or, if "
    "each has a table of its own, give each another key_prefix"
)

_NOT_PROBED = "shards could not be probed for new records, so they are requested less and less often: %s"


def skip_reason(
    waiting: Mapping[str, Failing],
    dead: Collection[str],
    *,
    idle: int,
    busy: bool,
    not_probed: StreamError | None,
    locations: Sequence[str],
) -> str:
    """Return why a tick requests no run.

    Args:
        waiting: The shards and derived tables that wait after a failed run.
        dead: The ids of the runs that show no sign of life.
        idle: The number of shards that have no unread records, as far as is known.
        busy: Whether a readable shard has an unfinished run.
        not_probed: Why it is not known of some shards whether they have unread records.
        locations: The code locations that evaluate a sensor of the stream.
    """
    first = sorted(waiting.items(), key=lambda item: item[1].until)
    reasons = [_waits(shard_id, failing) for shard_id, failing in first[:_NAMED]]
    if len(first) > _NAMED:
        reasons.append(f"{len(first) - _NAMED} more wait")
    if idle:
        reasons.insert(0, "1 shard is idle" if idle == 1 else f"{idle} shards are idle")
    if busy or not idle:
        other = "other " if reasons else ""
        reasons.insert(0, f"every {other}readable shard has an unfinished run")
    if not_probed is not None:
        reasons.append(_NOT_PROBED % not_probed.reason)
    if len(locations) > 1:
        reasons.insert(0, _SHARED % " and ".join(locations))
    return "; ".join([*reasons, *(DEAD % run_id for run_id in sorted(dead))])


def _waits(name: str, failing: Failing) -> str:
    """Return why a shard or a table waits, and until when."""
    until = datetime.fromtimestamp(failing.until, UTC)
    runs = "its last run" if failing.runs == 1 else f"its last {failing.runs} runs"
    return f"{name} waits until {until:%Y-%m-%dT%H:%M:%SZ}: {runs} failed, the last was {failing.run_id}"
