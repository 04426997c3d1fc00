"""The events of a run's shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.metadata import event_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.ingest.outcome import RunResult


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
        event = dg.AssetMaterialization if outcome.error is None else dg.AssetObservation
        yield event(key, partition=shard_id, metadata=event_metadata(stream, outcome, result))
