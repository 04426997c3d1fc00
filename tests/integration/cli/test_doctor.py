"""`kinesis-assets doctor --rows`, which reads the rows with Spark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets import Cursor, new_rows
from kinesis_assets.errors import TableUnsuitable
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.kinesis.client import StreamClient
from support.mentions import assert_mentions

if TYPE_CHECKING:
    from kinesis_assets.table.raw_table import PositionedTable
    from support.command_line import RunCommand

A = "shardId-000000000000"


pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def numbers(kinesis: Any, stream: str, settings, table: PositionedTable) -> DeltaTable:
    """The table of a stream, with ten numbers."""
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    entries = [{"Data": b"%d" % number, "PartitionKey": "k"} for number in range(10)]
    kinesis.put_records(StreamName=stream, Records=entries)
    client = StreamClient(stream, settings)
    execute_run(land_group, client, table, plan_run(client, table, asked=[A], policy=ReadPolicy()))
    return DeltaTable(table.folder.uri)


def test_a_deleted_row_is_found_with_rows_only(cli: RunCommand, stream_options, numbers: DeltaTable):
    numbers.delete("data = '7'")
    assert cli("doctor", *stream_options).exit_code == 0

    done = cli("doctor", *stream_options, "--rows", "--json")

    assert done.exit_code == 1
    (line,) = (line for line in done.lines if line["level"] == "problem")
    assert (line["check"], line["shard"]) == ("rows", A)
    assert_mentions(line["sentence"], "10 rows", "1 of them")


def test_rows_that_another_program_has_doubled_are_found_as_the_errors_about_them_say(
    cli: RunCommand, stream_options, numbers: DeltaTable
):
    write_deltalake(numbers, numbers.to_pyarrow_table(), mode="append")
    with pytest.raises(
        TableUnsuitable, match="Examine the table with `kinesis-assets doctor --rows`"
    ) as raised:
        new_rows(numbers.table_uri, Cursor(source=numbers.metadata().id))
    (batch,) = re.findall(r"batch \d+", str(raised.value))
    done = cli("doctor", *stream_options, "--rows", "--json")
    found = {
        (line["check"], line["shard"], line["sentence"]) for line in done.lines if line["level"] == "problem"
    }
    assert found == {
        ("rows", A, "10 records are in the table more than once"),
        ("rows", A, f"{batch} added 10 rows, but 20 rows carry its id: some are duplicates"),
    }
