"""A job on Spark Connect, which prints what the data source reads and what a run commits as JSON."""

from __future__ import annotations

import json
import sys
from functools import partial

from pyspark.sql import SparkSession

from kinesis_assets.ingest.land import land
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.spark.data_source import KinesisDataSource
from kinesis_assets.table.table import PositionedTable


def main(stream: str, endpoint_url: str, until: str, uri: str) -> None:
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    spark.dataSource.register(KinesisDataSource)
    read = (
        spark.read.format("kinesis")
        .options(stream=stream, endpoint_url=endpoint_url, region_name="us-east-1", until=until)
        .load()
    )
    client = StreamClient(stream, ClientSettings("us-east-1", endpoint_url))
    table = PositionedTable(uri)
    shard_ids = [shard.shard_id for shard in client.list_shards()]
    plan = plan_run(client, table, asked=shard_ids, policy=ReadPolicy())
    result = execute_run(partial(land, spark), client, table, plan)
    told = {
        "read": sorted(int(row.data) for row in read.select("data").collect()),
        "rows": {shard_id: outcome.rows for shard_id, outcome in result.outcomes.items()},
    }
    print(json.dumps(told))  # noqa: T201  # the job's answer
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
