"""How shards become runs and runs tell their shards: contiguous spans of partitions, and Dagster's tags."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    PARTITION_NAME_TAG,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


def contiguous_spans(keys: Sequence[str], wanted: Collection[str]) -> list[list[str]]:
    """The runs of wanted keys that stand side by side in `keys`, in their order."""
    return [list(span) for is_wanted, span in groupby(keys, key=lambda key: key in wanted) if is_wanted]


def span_tags(span: Sequence[str]) -> dict[str, str]:
    """The tags by which a run knows its partitions, as the UI would set them."""
    if len(span) == 1:
        return {PARTITION_NAME_TAG: span[0]}
    return {ASSET_PARTITION_RANGE_START_TAG: span[0], ASSET_PARTITION_RANGE_END_TAG: span[-1]}


def tagged_span(tags: Mapping[str, str], keys: Sequence[str]) -> Sequence[str]:
    """The partitions that a run's tags name; a range counts in the order of `keys`, both ends inclusive."""
    if PARTITION_NAME_TAG in tags:
        return [tags[PARTITION_NAME_TAG]]
    first, last = tags.get(ASSET_PARTITION_RANGE_START_TAG), tags.get(ASSET_PARTITION_RANGE_END_TAG)
    if first not in keys or last not in keys:
        return []
    return keys[keys.index(first) : keys.index(last) + 1]
