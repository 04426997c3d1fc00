"""The CPU of landings in Spark, by GetRecords or by the subscriptions of a consumer, in a process of its own.

    python -m benchmarks.workers.fan_out ENDPOINT FOLDER CONSUMER STREAM ...

CONSUMER is empty for landings without one. It lands all records of each stream, and prints the CPU seconds of
this process and its Spark for the last one. The others warm up.
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.harness.cpu import tree_cpu
from benchmarks.harness.single_process import REGION
from kinesis_assets.ingest.fan_out import landing_by_subscriptions
from kinesis_assets.ingest.land import land
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.reading.range import Bounds
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.spark.session import start_session
from kinesis_assets.table.raw_table import PositionedTable

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from kinesis_assets.ingest.run import Land


def land_all(spark: SparkSession, client: StreamClient, table: PositionedTable, consumer: str) -> float:
    """Land all records of a stream, and return the CPU seconds."""
    in_spark = partial(land, spark)
    landing: AbstractContextManager[Land] = nullcontext(in_spark)
    if consumer:
        landing = landing_by_subscriptions(client, consumer, client.describe(), land=in_spark, warn=sys.exit)
    cpu = tree_cpu(os.getpid())
    policy = ReadPolicy(bounds=Bounds(max_seconds=10.0))
    with landing as land_ranges:
        behind = True
        while behind:
            asked = [shard.shard_id for shard in client.list_shards()]
            plan = plan_run(client, table, asked=asked, policy=policy)
            result = execute_run(land_ranges, client, table, plan, is_iteration=True)
            behind = any(outcome.facts.millis_behind_latest != 0 for outcome in result.outcomes.values())
    return tree_cpu(os.getpid()) - cpu


def main(endpoint: str, folder: str, consumer: str, *streams: str) -> None:
    """Land the streams one after the other."""
    spark = start_session({"spark.master": "local[2]"})
    cpu = 0.0
    for stream in streams:
        client = StreamClient(stream, ClientSettings(REGION, endpoint))
        cpu = land_all(spark, client, PositionedTable(f"{folder}/{stream}"), consumer)
    print(cpu)  # noqa: T201  # the result


if __name__ == "__main__":
    main(*sys.argv[1:])
