"""boto3 rows through Spark: each task reads a shard in the loop, its rows become a DataFrame, and Parquet."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, StringType, StructType, TimestampType

from benchmarks.harness.worker_protocol import Order, Read, private_stdout, take_orders
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
    """A local session of two cores, without its UI."""
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
    """The records of a task's shards."""
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


def read(spark: SparkSession, order: Order) -> Read:
    """Read the stream into Parquet files of the order's folder."""
    shards = shard_ids(client(order.url), order.stream)
    counts = spark.sparkContext.accumulator(0)
    sizes = spark.sparkContext.accumulator(0)

    def counted(of_task: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        records = size = 0
        for row in rows(order.url, order.stream, of_task):
            records += 1
            size += len(row[-1])
            yield row
        counts.add(records)
        sizes.add(size)

    read_by_tasks = spark.sparkContext.parallelize(shards, TASKS).mapPartitions(counted)
    frame = spark.createDataFrame(read_by_tasks, SCHEMA)
    frame.write.parquet(str(Path(order.folder, "rows")))
    return Read(counts.value, sizes.value)


def main() -> None:
    """A warm session that takes orders."""
    marks = private_stdout()
    spark = session()

    def prepare(order: Order) -> Callable[[], Read]:
        return partial(read, spark, order)

    take_orders(prepare, marks)
    spark.stop()


if __name__ == "__main__":
    main()
