"""An operation beside the runs without Spark, in this process or as `one_operation.py ARGUMENTS` (JSON)."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.operations.adopt import adopt
from kinesis_assets.operations.replay.plan import ReplayWindow
from kinesis_assets.operations.replay.run import replay
from kinesis_assets.operations.replay.task import fill_group
from kinesis_assets.operations.seek.run import seek
from kinesis_assets.table.maintenance.retention import lower_floor
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.maintenance.steps import State
from support.formats import raw_table
from support.named_files import NamedFiles
from support.timing import READING, WRITING

if TYPE_CHECKING:
    from kinesis_assets.table.raw_table import PositionedTable

DAYS_LATER = 40
"""Maintenance's clocks are so far ahead: the records' day is over, and positions are old enough to prune."""

LOWERED = date(2026, 1, 1)
"""Where the floor is lowered to: before any record arrived."""


def operate(arguments: dict[str, Any]) -> None:
    """Execute one operation."""
    settings = ClientSettings("us-east-1", arguments["endpoint_url"], timing=READING)
    client = StreamClient(arguments["stream"], settings)
    table = raw_table(arguments["table"], WRITING)
    operation, shard_ids = arguments["operation"], arguments["shards"]
    if operation == "replay":
        result = replay(fill_group, client, table, ReplayWindow.of("TRIM_HORIZON"), shard_ids, by="the test")
        assert not result.errors
    elif operation == "seek":
        to = Position.parse(arguments["to"])
        seek(client, table, to=to, shard_ids=shard_ids, by="the test", apply=True)
    elif operation == "adopt":
        adopt(client, table, by="the test", apply=True)
    elif operation == "maintain":
        _maintain(client, table, arguments.get("retention_days"))
    elif operation == "lower floor":
        lower_floor(table, client.describe().identity, LOWERED, datetime.now(UTC), by="the test")
    else:
        raise AssertionError(operation)


def _maintain(client: StreamClient, table: PositionedTable, retention_days: int | None) -> None:
    table.files = NamedFiles(table.files)
    later = datetime.now(UTC) + timedelta(days=DAYS_LATER)
    stream = replace(client.describe(), service_time=later)
    steps = list(maintain(table, stream, retention_days=retention_days, by="the test", machine=lambda: later))
    assert {step.state for step in steps} <= {State.DONE}, steps


if __name__ == "__main__":
    operate(json.loads(sys.argv[1]))
