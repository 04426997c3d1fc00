"""Checks of a replay's manifests against the requested ranges, made before the commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.ingest.manifest_checks import (
    check_manifest,
    common_checks,
    first_failed,
    is_ascending,
    is_reachable,
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
    first, last, through = shard.first_sequence_number, shard.last_sequence_number, shard.through
    return first_failed(
        shard.shard_id,
        (shard.start != range_.start, "another start than that of the requested range"),
        *common_checks(shard),
        (shard.rows > shard.read, "more rows than records"),
        (
            [first, last].count(None) != (0 if shard.rows else 2),
            "rows without numbers, or numbers without rows",
        ),
        (
            shard.rows > 0 and not is_ascending([shard.first_read, first, last, through.sequence_number]),
            "rows that are not among the records that were read",
        ),
        (
            not is_reachable(range_, through, shard.read, shard.first_read),
            "a position that cannot be reached from its start with these records",
        ),
    )
