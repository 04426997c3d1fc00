"""A landing of what a consumer receives, in a process of its own: `fan_out_run.py ARGUMENTS` (JSON).

It runs until the table has as many rows as it is given.
"""

import json
import sys
from functools import partial

from deltalake import DeltaTable

from benchmarks.harness.waiting import wait_until
from kinesis_assets.ingest.fan_out import landing_by_subscriptions
from kinesis_assets.ingest.land import land
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.spark.session import end_session, start_session
from kinesis_assets.table.table import PositionedTable

arguments = json.loads(sys.argv[1])
client = StreamClient(arguments["stream"], ClientSettings("us-east-1", arguments["endpoint_url"]))
table = PositionedTable(arguments["table"])
spark = start_session(arguments["spark_config"])
shards = [shard.shard_id for shard in client.list_shards()]
with landing_by_subscriptions(
    client, "lake", client.describe(), land=partial(land, spark), warn=sys.exit
) as land_ranges:

    def has_all() -> bool:
        plan = plan_run(client, table, asked=shards, policy=ReadPolicy())
        result = execute_run(land_ranges, client, table, plan)
        assert not result.errors, result.errors
        return DeltaTable(table.uri).count() == arguments["rows"]

    wait_until(has_all)
end_session(spark)
