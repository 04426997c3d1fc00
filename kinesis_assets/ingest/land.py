"""Landing: one Spark job that takes shards' ranges from the wire to Parquet files.

Each task reads its shards and writes the files itself, so records never cross into the JVM. What a task
returns tells which files it wrote and how far each shard got. Only what came back counts: a retried,
speculated or half-dead attempt leaves files that nothing points at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.ingest.manifest import Landing, decode_all
from kinesis_assets.ingest.manifest_checks import check_landing
from kinesis_assets.ingest.packing import packed
from kinesis_assets.ingest.task import landing_task
from kinesis_assets.spark.session import end_tagged, parallelism, tagged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from kinesis_assets.ingest.task import LandingJob
    from kinesis_assets.kinesis.limits import Allowance
    from kinesis_assets.kinesis.reading.reading import ShardRange


def land(spark: SparkSession, job: LandingJob, ranges: Sequence[ShardRange], allowance: Allowance) -> Landing:
    """Read ranges of different shards and write them to files in the table's folder.

    Ranges must not depend on each other: a child goes into a later landing than its parents.
    A shard that fails ends its own range only; any other error fails the job.

    Args:
        spark: Where.
        job: What all ranges have in common.
        ranges: What to read; the first ones are begun first.
        allowance: What they may read together.

    Raises:
        LandingFailed: What came back cannot be true.
    """
    shares = allowance.shares(min(len(ranges), parallelism(spark)))
    tasks = len(shares)
    groups = list(zip(packed(ranges, tasks), shares, strict=True))
    numbers = spark.range(0, tasks, 1, tasks)
    with tagged(spark, _tag(job.batch_id)):
        rows = numbers.mapInArrow(landing_task(job, groups), "landing binary").collect()
    return landing_of([row[0] for row in rows], job, ranges)


def landing_of(contents: Sequence[object], job: LandingJob, ranges: Sequence[ShardRange]) -> Landing:
    """The landing whose tasks returned these manifests.

    Raises:
        LandingFailed: One of them is no manifest, or together they cannot be those of these ranges.
    """
    landing = sum(decode_all(job.stream, contents, Landing), Landing())
    check_landing(job.stream, job.batch_id, ranges, landing)
    return landing


def end_landing(spark: SparkSession, batch_id: int) -> None:
    """End an attempt's landing from another thread; `land` raises soon."""
    end_tagged(spark, _tag(batch_id))


def _tag(batch_id: int) -> str:
    return f"kinesis-{batch_id}"
