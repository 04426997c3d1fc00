"""One run without Spark in a process of its own: `one_run.py ARGUMENTS` (JSON). It prints its report as JSON.

HTTP, files and the commit are real. The one task runs in this process. If the process is stopped and
continued, `hours_stopped` hours pass by the clock of its commits.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from dataclasses import replace
from typing import Any

from kinesis_assets.errors import KinesisAssetsError
from kinesis_assets.ingest import task
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.reading.range import Bounds
from kinesis_assets.kinesis.settings import ClientSettings
from support.formats import raw_table
from support.shifted_clock import ShiftedClock
from support.timing import READING, WRITING


def main(arguments: dict[str, Any]) -> None:
    """Execute the run."""
    if "file_bytes" in arguments:
        resource.setrlimit(resource.RLIMIT_FSIZE, (arguments["file_bytes"], resource.RLIM_INFINITY))
    settings = ClientSettings("us-east-1", arguments["endpoint_url"], timing=READING)
    client = StreamClient(arguments["stream"], settings)
    clock = ShiftedClock()
    signal.signal(signal.SIGCONT, lambda *_: clock.advance(arguments.get("hours_stopped", 0)))
    table = raw_table(arguments["table"], replace(WRITING, clock=clock))
    asked = arguments["shards"] or [shard.shard_id for shard in client.list_shards()]
    try:
        policy = ReadPolicy(bounds=Bounds(max_records=arguments.get("max_records")))
        plan = plan_run(client, table, asked=asked, policy=policy)
        result = execute_run(task.land_group, client, table, plan, by="the test")
    except (KinesisAssetsError, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
    facts = {
        shard_id: {
            "state": outcome.state,
            "rows": outcome.rows,
            "error": outcome.error and f"{type(outcome.error).__name__}: {outcome.error}",
        }
        for shard_id, outcome in result.outcomes.items()
    }
    print(json.dumps({"batch_id": result.batch_id, "version": result.version, "shards": facts}))  # noqa: T201


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
