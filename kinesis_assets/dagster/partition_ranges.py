"""Map shards to runs and back: contiguous ranges of partitions, and the tags that Dagster stores for them."""

from __future__ import annotations

from itertools import groupby
from math import ceil, isfinite
from typing import TYPE_CHECKING

from dagster import MAX_RUNTIME_SECONDS_TAG

from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

PARTITION_TAG = "dagster/partition"
RANGE_START_TAG = "dagster/asset_partition_range_start"
RANGE_END_TAG = "dagster/asset_partition_range_end"
"""Dagster's tags for the partitions of a run. It stores them with the run and shows them in the UI."""

SHARD_TAG = "kinesis/shard"
"""The tag of a run over one shard: the stream's asset key and the shard. dagster.yaml limits runs by it,
because the partitions of all streams have the same names."""

STREAM_TAG = "kinesis/stream"
"""The tag of a replay: the stream's asset key. Jobs of other code locations may have the same name."""

FOLLOW_TAG = "kinesis/follow_for"
"""The tag of a continuous run: its duration in seconds. A run without it reads the next range once."""

NEWS_TAG = "kinesis/reports"
"""The tag of a run that reports only the shards with news. Any other run reports each of its shards, because
Dagster shows a backfill that does not as failed."""

_NEWS = "news"

_START_AND_END = 600
"""Seconds that a continuous run may take to start and to end, in addition to its duration."""


def contiguous_ranges(keys: Sequence[str], wanted: Collection[str]) -> list[list[str]]:
    """Split the wanted keys into ranges without an unwanted key in between, in the order of `keys`."""
    return [list(range_) for is_wanted, range_ in groupby(keys, key=lambda key: key in wanted) if is_wanted]


def range_tags(range_: Sequence[str], *, as_range: bool = False) -> dict[str, str]:
    """Return the tags that the UI would set for a run over a range of partitions.

    Args:
        range_: Adjacent partitions.
        as_range: Whether a single partition is also written as a range, see `continuous_run_tags`.
    """
    if len(range_) == 1 and not as_range:
        return {PARTITION_TAG: range_[0]}
    return {RANGE_START_TAG: range_[0], RANGE_END_TAG: range_[-1]}


def reporting_news(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the tags of a run that reports only the shards with news."""
    return {**tags, NEWS_TAG: _NEWS}


def reports_only_news(tags: Mapping[str, str]) -> bool:
    """Return whether a run reports only the shards with news."""
    return tags.get(NEWS_TAG) == _NEWS


def continuous_run_tags(range_: Sequence[str], seconds: float, handover: float) -> dict[str, str]:
    """Return the tags of a continuous run over a range of partitions.

    A single shard is written as a range too: an instance may be configured to queue a run until no other run
    with the same `dagster/partition` is in progress, but a continuous run starts before its predecessor ends.

    Args:
        handover: Seconds before and after the end in which the next run may take over, see `RunTiming`.
    """
    return {
        **range_tags(range_, as_range=True),
        FOLLOW_TAG: f"{seconds:g}",
        MAX_RUNTIME_SECONDS_TAG: str(ceil(seconds + handover) + _START_AND_END),
    }


def continuous_run_seconds(tags: Mapping[str, str]) -> float | None:
    """Return the duration of a continuous run in seconds; None for any other run.

    Raises:
        InvalidInput: The tag's value is not a positive number.
    """
    text = tags.get(FOLLOW_TAG)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not isfinite(seconds) or seconds <= 0:
        raise InvalidInput(f"the tag {FOLLOW_TAG} must be a number of seconds above 0, not {text[:80]!r}")
    return seconds


def tagged_partitions(tags: Mapping[str, str], keys: Sequence[str]) -> Sequence[str]:
    """Return the partitions that a run's tags name. The ends of a range are inclusive.

    Args:
        keys: The newest partitions in Dagster's order, see `newest_partitions`. A range that starts before
            them is returned from the first of them.
    """
    if PARTITION_TAG in tags:
        return [tags[PARTITION_TAG]]
    first, last = tags.get(RANGE_START_TAG), tags.get(RANGE_END_TAG)
    if first is None or last not in keys:
        return []
    return keys[keys.index(first) if first in keys else 0 : keys.index(last) + 1]
