"""Facts of a run's result."""

from __future__ import annotations

from kinesis_assets.errors import DataLost


def states(result):
    return {shard_id: outcome.state for shard_id, outcome in result.outcomes.items()}


def shards_with_loss(result):
    """Return the shards with reported data loss, and assert that there is no other error."""
    assert all(isinstance(error, DataLost) for error in result.errors.values())
    return set(result.errors)
