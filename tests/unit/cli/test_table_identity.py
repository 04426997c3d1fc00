"""Every command refuses a table of another stream with an error that names both, and changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from deltalake import DeltaTable

from kinesis_assets.cli.command_line import commands
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.commits.commit import freeze

if TYPE_CHECKING:
    from kinesis_assets.table.raw_table import PositionedTable
    from support.command_line import RunCommand

ARGUMENTS = {
    "plan": [],
    "pause": ["--reason", "a test"],
    "resume": [],
    "run": [],
    "positions": [],
    "seek": ["--to", "TRIM_HORIZON", "--all-shards", "--apply"],
    "catch-up": [],
    "maintain": [],
    "replay": ["--from", "TRIM_HORIZON"],
    "adopt": ["--apply"],
    "doctor": [],
    "infer": [],
}


def test_every_command_on_a_table_is_tested_here():
    on_a_table = {
        name
        for name, command in commands.commands.items()
        if any("--table" in parameter.opts for parameter in command.params)
    }
    assert on_a_table - {"show"} == ARGUMENTS.keys()  # which opens no table


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.slow
def test_a_table_of_another_stream_is_refused_with_both_names(
    cli: RunCommand, stream_options, kinesis: Any, stream, settings, table: PositionedTable, name
):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.put_record(StreamName=stream, Data=b"a", PartitionKey="k")
    listing = StreamClient(stream, settings).listing()
    ours = listing.summary.identity
    other = msgspec.structs.replace(ours, arn=ours.arn.replace("us-east-1", "eu-west-1"))
    swapped = replace(listing, summary=replace(listing.summary, identity=other))
    beginning = Position.parse("TRIM_HORIZON")
    freeze(table, swapped, {shard.shard_id: beginning for shard in listing.shards})
    before = DeltaTable(table.uri).version()

    done = cli(name, *stream_options, *ARGUMENTS[name])

    assert done.exit_code == 1
    printed = done.out + done.err
    assert ours.arn in printed
    assert other.arn in printed
    assert DeltaTable(table.uri).version() == before
