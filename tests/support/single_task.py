"""Run the one task of a run or a replay in this process, without Spark.

The task's result is encoded and decoded as a manifest, as it is with Spark.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from kinesis_assets.ingest.manifest import Landing, encode
from kinesis_assets.ingest.task import land_group
from kinesis_assets.kinesis.reading.received_pages import decode
from kinesis_assets.kinesis.reading.received_pages import encode as encode_received
from kinesis_assets.operations.replay.task import FillResult, fill_group

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kinesis_assets.ingest.task import LandingJob
    from kinesis_assets.kinesis.reading.range import Allowance, ShardRange
    from kinesis_assets.kinesis.reading.received_pages import Received
    from kinesis_assets.operations.replay.task import FillJob


def land_as_in_spark(
    job: LandingJob,
    ranges: Sequence[ShardRange],
    allowance: Allowance,
    received: Mapping[str, Received] = MappingProxyType({}),
) -> Landing:
    shipped = decode(b"".join(encode_received(received)))
    return Landing.of([encode(land_group(job, ranges, allowance, shipped))], job.stream, job.batch_id, ranges)


def fill_as_in_spark(job: FillJob, ranges: Sequence[ShardRange]) -> FillResult:
    return FillResult.of([encode(fill_group(job, ranges))], job.landing.stream, job.landing.batch_id, ranges)
