"""Checks of a replay's manifests against the requested ranges, made before the commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.ingest.manifest_checks import (
    check_manifest,
    common_checks,
    first_failed,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinesis_assets.kinesis.reading.range import ShardRange
    from kinesis_assets.replay.manifest import FillResult, ShardFillResult


def check_filling(stream: str, batch_id: int, ranges: Sequence[ShardRange], filling: FillResult) -> None:
    """Check that a filling can be the result of these ranges.

    Raises:
        LandingFailed: It cannot.
    """
    check_manifest(
        stream,
        batch_id,
        ranges,
        files=filling.files,
        shards=filling.shards,
        wrong_shard=_wrong_filling,
    )


def _wrong_filling(range_: ShardRange, shard: ShardFillResult) -> str | None:
    return first_failed(
        shard.shard_id,
        *common_checks(range_, shard, read=shard.read, first_read=shard.first_read),
        (shard.stats.rows > shard.read, "more rows than records"),
    )
