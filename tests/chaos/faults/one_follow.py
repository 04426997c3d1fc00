"""A run that follows, without Spark, in a process of its own: `one_follow.py ARGUMENTS`, JSON.

After the first look that brought rows it tells so by a file `TOLD` in its fault's folder, and waits for a
file `MORE` there: by then there are more records, and what it does next are its later looks. It ends after
the next one that brought rows.
"""

import json
import os
import sys
import time
from pathlib import Path

from kinesis_assets.ingest import task
from kinesis_assets.ingest.continuous_run import ContinuousRun
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run_timing import RunTiming
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.table.table import PositionedTable
from support.timing import READING, WRITING

TOLD, MORE = "told", "more"
SECONDS = 60.0

arguments = json.loads(sys.argv[1])
folder = Path(json.loads(os.environ["FAULT"])["folder"])


def report(_: object) -> None:
    """Of a commit."""
    if (folder / TOLD).exists():
        follow.stop()
        return
    (folder / TOLD).touch()
    deadline = time.monotonic() + SECONDS
    while not (folder / MORE).exists():
        if time.monotonic() > deadline:
            sys.exit("nobody put more records")
        time.sleep(0.01)  # between two looks


settings = ClientSettings("us-east-1", arguments["endpoint_url"], timing=READING)
client = StreamClient(arguments["stream"], settings)
table, policy = PositionedTable(arguments["table"], WRITING), ReadPolicy()
follow = ContinuousRun(
    task.land_group,
    client,
    table,
    policy,
    # Each iteration lists the shards, so that it passes the points of a list too.
    RunTiming(SECONDS, commit_interval=0.05, max_listing_age=0.0),
    report=report,
    by="the test",
)
asked = arguments["shards"] or [shard.shard_id for shard in client.list_shards()]
follow.run(plan_run(client, table, asked=asked, policy=policy))
