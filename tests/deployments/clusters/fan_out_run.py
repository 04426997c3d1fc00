"""A landing of what a consumer receives, in a process of its own: `fan_out_run.py ARGUMENTS` (JSON).

It puts as many records as it is given once the consumer has subscribed to each shard, and runs until all are
in the table.
"""

import json
import sys
from functools import partial

import boto3
from deltalake import DeltaTable

from benchmarks.harness.waiting import SECONDS, wait_until
from kinesis_assets.ingest.fan_out import landing_by_subscriptions
from kinesis_assets.ingest.land import land
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.reading import subscription
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.spark.session import end_session, start_session
from kinesis_assets.table.raw_table import PositionedTable

# A slow machine would read with GetRecords meanwhile.
subscription._FIRST_EVENT = subscription._PATIENCE = SECONDS
arguments = json.loads(sys.argv[1])
records = [{"Data": b"%d" % item, "PartitionKey": str(item)} for item in range(arguments["rows"])]
client = StreamClient(arguments["stream"], ClientSettings("us-east-1", arguments["endpoint_url"]))
table = PositionedTable(arguments["table"])
spark = start_session(arguments["spark_config"])
shards = [shard.shard_id for shard in client.list_shards()]
reasons: dict[str, str | None] = {}
with landing_by_subscriptions(
    client, "lake", client.describe(), land=partial(land, spark), warn=print, note=reasons.update
) as land_ranges:

    def rows() -> int:
        plan = plan_run(client, table, asked=shards, policy=ReadPolicy())
        result = execute_run(land_ranges, client, table, plan)
        assert not result.errors, result.errors
        return int(DeltaTable(table.uri).count())

    wait_until(lambda: rows() == 0 and reasons == dict.fromkeys(shards))
    boto3.client("kinesis", "us-east-1", endpoint_url=arguments["endpoint_url"]).put_records(
        StreamName=arguments["stream"], Records=records
    )
    wait_until(lambda: rows() == arguments["rows"])
end_session(spark)
