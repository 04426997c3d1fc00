"""How shards become runs and runs tell their shards: contiguous spans of partitions, and Dagster's tags."""

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
"""Dagster's own tags for the partitions of a run; it stores them and shows them in the UI."""

FOLLOW_TAG = "kinesis/follow_for"
"""A run with this tag follows, for so many seconds; one without it reads the next range once."""

_START_AND_END = 600
"""Seconds that a run may take for its start and its end, beside the time for which it follows."""


def contiguous_spans(keys: Sequence[str], wanted: Collection[str]) -> list[list[str]]:
    """The runs of wanted keys that stand side by side in `keys`, in their order."""
    return [list(span) for is_wanted, span in groupby(keys, key=lambda key: key in wanted) if is_wanted]


def span_tags(span: Sequence[str], *, as_range: bool = False) -> dict[str, str]:
    """The tags by which a run knows its partitions, as the UI would set them.

    Args:
        span: The partitions, side by side.
        as_range: A single one is a range too, see `following_tags`.
    """
    if len(span) == 1 and not as_range:
        return {PARTITION_TAG: span[0]}
    return {RANGE_START_TAG: span[0], RANGE_END_TAG: span[-1]}


def following_tags(span: Sequence[str], seconds: float, handover: float) -> dict[str, str]:
    """The same for a run that follows, see `Pace`.

    A single shard is a range too: of two runs with the same `dagster/partition` an instance may hold the
    second back until the first ends.
    """
    return {
        RANGE_START_TAG: span[0],
        RANGE_END_TAG: span[-1],
        FOLLOW_TAG: f"{seconds:g}",
        MAX_RUNTIME_SECONDS_TAG: str(ceil(seconds + handover) + _START_AND_END),
    }


def seconds_followed(tags: Mapping[str, str]) -> float | None:
    """How long a run follows, by its tags; None for one that does not.

    Raises:
        InvalidInput: The tag is no number of seconds.
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


def tagged_span(tags: Mapping[str, str], keys: Sequence[str]) -> Sequence[str]:
    """The partitions that a run's tags name; a range counts in the order of `keys`, both ends inclusive.

    Args:
        tags: The run's.
        keys: The newest partitions, see `newest_partitions`; a range that begins before them counts from the
            first of them.
    """
    if PARTITION_TAG in tags:
        return [tags[PARTITION_TAG]]
    first, last = tags.get(RANGE_START_TAG), tags.get(RANGE_END_TAG)
    if first is None or last not in keys:
        return []
    return keys[keys.index(first) if first in keys else 0 : keys.index(last) + 1]
