"""boto3 rows through Spark: tasks read shards in a loop, and their rows become a DataFrame that is written as
Parquet.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, StringType, StructType, TimestampType

from benchmarks.harness.worker_protocol import ReadRequest, ReadResult, private_stdout, serve_requests
from benchmarks.peers.boto3_calls import client, pages, shard_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SCHEMA = (
    StructType()
    .add("shard_id", StringType())
    .add("sequence_number", StringType())
    .add("partition_key", StringType())
    .add("arrived", TimestampType())
    .add("data", BinaryType())
)
TASKS = 4


def session() -> SparkSession:
    """Return a local session with two cores, without its UI."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


def rows(url: str, stream: str, shards: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the records of the shards of a task."""
    kinesis = client(url)
    for shard_id in shards:
        for page in pages(kinesis, stream, shard_id):
            for record in page:
                yield (
                    shard_id,
                    record["SequenceNumber"],
                    record["PartitionKey"],
                    record["ApproximateArrivalTimestamp"],
                    record["Data"],
                )


def read(spark: SparkSession, request: ReadRequest) -> ReadResult:
    """Read the stream of a request into Parquet files in its folder."""
    shards = shard_ids(client(request.url), request.stream)
    counts = spark.sparkContext.accumulator(0)
    sizes = spark.sparkContext.accumulator(0)

    def counted(task_shards: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        records = size = 0
        for row in rows(request.url, request.stream, task_shards):
            records += 1
            size += len(row[-1])
            yield row
        counts.add(records)
        sizes.add(size)

    records_rdd = spark.sparkContext.parallelize(shards, TASKS).mapPartitions(counted)
    frame = spark.createDataFrame(records_rdd, SCHEMA)
    frame.write.parquet(str(Path(request.folder, "rows")))
    return ReadResult(counts.value, sizes.value)


def main() -> None:
    """Serve requests with a warm session."""
    replies = private_stdout()
    spark = session()

    def prepare(request: ReadRequest) -> Callable[[], ReadResult]:
        return partial(read, spark, request)

    serve_requests(prepare, replies)
    spark.stop()


if __name__ == "__main__":
    main()
