"""Facts of a run's result."""

from __future__ import annotations

from typing import Any

import msgspec

from kinesis_assets.errors import DataLost
from kinesis_assets.table.positions.range_stats import ReadingFacts


def states(result):
    return {shard_id: outcome.state for shard_id, outcome in result.outcomes.items()}


def shards_with_loss(result):
    """Return the shards with reported data loss, and assert that there is no other error."""
    assert all(isinstance(error, DataLost) for error in result.errors.values())
    return set(result.errors)


def reading_facts(**facts: Any) -> ReadingFacts:
    """Return these facts about reading a shard; the others are those of a shard that was not read."""
    return msgspec.structs.replace(ReadingFacts.unread(), **facts)
