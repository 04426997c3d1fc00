"""A continuous run without Spark in a process of its own: `one_continuous_run.py ARGUMENTS` (JSON).

After the first iteration that commits rows, it creates the file `REPORTED` in its fault's folder, and waits
for the file `MORE` there. With a consumer, it does so once this has subscribed to each shard. The test puts
more records before it creates that file. The run ends after the next iteration that commits rows.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness.waiting import SECONDS, wait_until
from kinesis_assets.ingest import task
from kinesis_assets.ingest.continuous_run import ContinuousRun, RunTiming
from kinesis_assets.ingest.fan_out import landing_by_subscriptions
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.settings import ClientSettings
from support.formats import raw_table
from support.timing import READING, WRITING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.ingest.run import Land

REPORTED, MORE = "reported", "more"


def main(arguments: dict[str, Any]) -> None:
    """Execute the run."""
    folder = Path(json.loads(os.environ["FAULT"])["folder"])
    rows = 0
    subscribed: dict[str, str | None] = {}  # None for the shards that are

    def after_iteration(result: RunResult) -> None:
        nonlocal rows
        added = sum(outcome.rows for outcome in result.outcomes.values())
        rows += added
        if (folder / REPORTED).exists():
            if added:
                continuous_run.stop()
        elif rows and (not consumer or subscribed == dict.fromkeys(asked)):
            (folder / REPORTED).touch()
            wait_until((folder / MORE).exists, failure="no more records were put", interval=0.01)

    settings = ClientSettings("us-east-1", arguments["endpoint_url"], timing=READING)
    client = StreamClient(arguments["stream"], settings)
    table, policy = raw_table(arguments["table"], WRITING), ReadPolicy()
    landing: AbstractContextManager[Land] = nullcontext(task.land_group)
    asked = arguments["shards"] or [shard.shard_id for shard in client.list_shards()]
    if consumer := arguments.get("consumer"):
        landing = landing_by_subscriptions(
            client, consumer, client.describe(), land=task.land_group, warn=print, note=subscribed.update
        )
    with landing as land:
        continuous_run = ContinuousRun(
            land,
            client,
            table,
            policy,
            # Each iteration lists the shards, so that it passes the points of a listing too.
            RunTiming(SECONDS, commit_interval=0.05, max_listing_age=0.0),
            report=lambda _: None,
            on_iteration=after_iteration,
            by="the test",
        )
        continuous_run.run(plan_run(client, table, asked=asked, policy=policy))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
