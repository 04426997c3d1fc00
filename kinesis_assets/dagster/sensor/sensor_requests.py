"""The runs that a tick of the sensor requests over ranges of shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.partition_ranges import (
    continuous_run_tags,
    limited_by_shard,
    range_tags,
    reporting_news,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kinesis_assets.dagster.stream import OpenStream

RUNS_PER_TICK = 3
"""The maximum number of runs that a tick requests."""


def in_turn(ranges: Sequence[Sequence[str]], keys: Sequence[str], last: str | None) -> list[Sequence[str]]:
    """Return the ranges with those after the last requested shard first.

    Args:
        ranges: The ranges of shards.
        keys: The newest partitions in Dagster's order.
        last: The last shard that an earlier tick requested.
    """
    if last not in keys:
        return list(ranges)
    after = set(keys[keys.index(last) + 1 :])
    return sorted(ranges, key=lambda range_: range_[0] not in after)


def run_requests(
    opened: OpenStream,
    ranges: Sequence[Sequence[str]],
    blocked: Collection[str],
    failing: Collection[str],
    derived: Collection[dg.AssetKey] = (),
) -> list[dg.RunRequest]:
    """Return the request of a run over each range.

    Args:
        opened: The stream.
        ranges: The ranges.
        blocked: The shards whose single partitions runs that are over may block in Dagster's queue, see
            `continuous_run_tags`.
        failing: The shards whose last run failed. Dagster shows them as failed until they are reported.
        derived: The derived tables that the first run includes.
    """
    # There is no run key, because the key of a failed run would block its shards forever.
    return [
        dg.RunRequest(
            asset_selection=[opened.names.raw_key, *(() if number else derived)],
            asset_check_keys=[],  # by default the run would also execute the checks of these assets
            tags=_tags(opened, range_, blocked, failing),
        )
        for number, range_ in enumerate(ranges)
    ]


def _tags(
    opened: OpenStream, range_: Sequence[str], blocked: Collection[str], failing: Collection[str]
) -> dict[str, str]:
    """Return the tags of the run that is requested over a range."""
    if opened.settings.follow_for is not None:
        return continuous_run_tags(range_, opened.settings.follow_for, opened.handover)
    tags = range_tags(range_, as_range=not set(range_).isdisjoint(blocked))
    tags = limited_by_shard(tags, opened.names.partitions_name)
    return reporting_news(tags) if set(range_).isdisjoint(failing) else tags
