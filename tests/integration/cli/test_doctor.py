"""`kinesis-assets doctor --rows`, which reads the rows with Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.kinesis.client import StreamClient
from support.mentions import assert_mentions

if TYPE_CHECKING:
    from kinesis_assets.table.table import PositionedTable
    from support.command_line import RunCommand

A = "shardId-000000000000"


@pytest.mark.usefixtures("spark")
def test_a_deleted_row_is_found_with_rows_only(
    cli: RunCommand, stream_options, kinesis: Any, stream: str, settings, table: PositionedTable
):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    entries = [{"Data": b"%d" % number, "PartitionKey": "k"} for number in range(10)]
    kinesis.put_records(StreamName=stream, Records=entries)
    client = StreamClient(stream, settings)
    execute_run(land_group, client, table, plan_run(client, table, asked=[A], policy=ReadPolicy()))
    DeltaTable(table.folder.uri).delete("data = '7'")
    assert cli("doctor", *stream_options).exit_code == 0

    done = cli("doctor", *stream_options, "--rows", "--json")

    assert done.exit_code == 1
    (line,) = (line for line in done.lines if line["level"] == "problem")
    assert (line["check"], line["shard"]) == ("rows", A)
    assert_mentions(line["sentence"], "10 rows", "1 of them")
