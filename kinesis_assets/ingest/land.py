"""Landing: one Spark job that reads shards' ranges and writes them to Parquet files.

Each task reads its shards and writes the files itself, so records never enter the JVM. It returns a
manifest of the files that it wrote and of how far it read each shard. Only returned manifests count: a
retried, speculated or killed attempt leaves files that no table version refers to.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from kinesis_assets.ingest.manifest import Landing
from kinesis_assets.ingest.task import landing_task
from kinesis_assets.kinesis.reading.received_pages import encode
from kinesis_assets.kinesis.settings import BYTES_PER_SECOND
from kinesis_assets.spark.pyspark_internals import folder_of_session, is_spark_3
from kinesis_assets.spark.session import balanced, cancel_tagged, parallelism, runs_on_this_machine, tagged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kinesis_assets.ingest.task import LandingJob
    from kinesis_assets.kinesis.reading.range import Allowance, ShardRange
    from kinesis_assets.kinesis.reading.received_pages import Received


_log = logging.getLogger(__name__)


def land(
    spark: SparkSession,
    job: LandingJob,
    ranges: Sequence[ShardRange],
    allowance: Allowance,
    received: Mapping[str, Received] = MappingProxyType({}),
) -> Landing:
    """Read ranges of different shards and write them to files in the table's folder, in one Spark job.

    Each task runs `land_group` on its part of the ranges. The driver checks and adds up their manifests.

    Ranges must not depend on each other: a child is landed after its parents. A shard's error ends its own
    range only; any other error fails the job.

    Args:
        ranges: In the order in which they are started.
        received: By shard id, what subscriptions have received. The tasks call GetRecords for the others, and
            for all if it cannot be passed on.

    Raises:
        LandingFailed: A task returned an invalid manifest.
    """
    shares = allowance.shares(min(len(ranges), parallelism(spark)))
    tasks = len(shares)
    groups = list(zip(packed(ranges, tasks), shares, strict=True))
    parts = [
        {each.shard_id: received[each.shard_id] for each in group if each.shard_id in received}
        for group, _ in groups
    ]
    with tagged(spark, _tag(job.batch_id)), ExitStack() as opened:
        files: list[str] = []
        pass_on = any(parts)
        # In rows, it would be copied many times within the JVM.
        if pass_on and runs_on_this_machine(spark):
            try:
                files = opened.enter_context(_files(spark, parts))
            except OSError as error:
                _log.warning(
                    "stream %s: what subscriptions have received cannot be written for the tasks, which call "
                    "GetRecords instead: %s",
                    job.stream,
                    error,
                )
                pass_on = False
        frame = _rows(spark, parts) if pass_on and not files else spark.range(0, tasks, 1, tasks)
        rows = frame.mapInArrow(landing_task(job, groups, files), "landing binary").collect()
    return Landing.of([row[0] for row in rows], job.stream, job.batch_id, ranges)


@contextmanager
def _files(spark: SparkSession, parts: Sequence[Mapping[str, Received]]) -> Iterator[list[str]]:
    """Yield the paths of files with what each task on this machine gets. Raises `OSError`."""
    with TemporaryDirectory(dir=folder_of_session(spark)) as folder:
        files = [Path(folder, str(number)) for number in range(len(parts))]
        for file, part in zip(files, parts, strict=True):
            with file.open("wb") as opened:
                opened.writelines(encode(part))
        yield list(map(str, files))


def _rows(spark: SparkSession, parts: Sequence[Mapping[str, Received]]) -> DataFrame:
    """Return a row for each task, in a partition of its own, with what it gets."""
    encoded = [b"".join(encode(part)) for part in parts]
    if is_spark_3():  # it makes no DataFrame of Arrow data
        return spark.createDataFrame(list(enumerate(encoded)), "id long, received binary")
    columns = [(pa.array([number]), pa.array([part], pa.binary())) for number, part in enumerate(encoded)]
    # Each batch becomes a partition.
    batches = [pa.RecordBatch.from_arrays(list(each), ["id", "received"]) for each in columns]
    return spark.createDataFrame(pa.Table.from_batches(batches))


def cancel_landing(spark: SparkSession, batch_id: int) -> None:
    """Cancel the landing of a batch from another thread; `land` then raises."""
    cancel_tagged(spark, _tag(batch_id))


def _tag(batch_id: int) -> str:
    return f"kinesis-{batch_id}"


_BYTES_PER_RANGE = 200_000
"""Weight of a range in addition to its bytes: the CPU of its calls equals that of landing this many bytes."""


def packed(ranges: Sequence[ShardRange], tasks: int) -> list[list[ShardRange]]:
    """Distribute ranges over tasks as `balanced`. Ranges of unknown size count as the largest known one."""
    expected = [_expected(range_) for range_ in ranges]
    largest = max((size for size in expected if size is not None), default=0.0)
    weights = [_BYTES_PER_RANGE + (largest if size is None else size) for size in expected]
    return [[ranges[number] for number in numbers] for numbers in balanced(weights, tasks)]


def _expected(range_: ShardRange) -> float | None:
    """Return the bytes that a range is expected to read, within its bounds; None if that is not known."""
    if range_.expected_bytes is None:
        return None
    bytes_, seconds = range_.bounds.max_bytes, range_.bounds.max_seconds
    limits = [bytes_, None if seconds is None else seconds * BYTES_PER_SECOND]
    return min([range_.expected_bytes, *(limit for limit in limits if limit is not None)])
