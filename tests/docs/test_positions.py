"""docs/positions.md agrees with the code, and its commands run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from kinesis_assets import build_kinesis_stream
from kinesis_assets import cli as command_line
from kinesis_assets.cli.command_line import commands
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.operations.seek.plan import Direction

PAGE = (Path(__file__).parents[2] / "docs" / "positions.md").read_text()
COMMANDS = [
    shlex.split(line)
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]


@pytest.fixture
def clicks(kinesis, monkeypatch, settings, tmp_path):
    """The page's stream on the emulator, and its table with one record in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", str(settings.endpoint_url))
    kinesis.create_stream(StreamName="clicks", ShardCount=1)
    kinesis.put_record(StreamName="clicks", Data=b"click", PartitionKey="k")
    with StreamProject.from_settings("clicks", table="./clicks").open_stream() as opened:
        client, table = opened.client, opened.table
        plan = plan_run(client, table, asked=["shardId-000000000000"], policy=ReadPolicy())
        execute_run(land_group, client, table, plan)
    yield
    kinesis.delete_stream(StreamName="clicks")


@pytest.mark.usefixtures("clicks")
def test_the_commands_run(monkeypatch):
    assert [command[1] for command in COMMANDS] == ["seek", "seek", "positions"]
    for command in COMMANDS:
        monkeypatch.setattr("sys.argv", command)
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        assert ended.value.code == 0


def test_the_documented_options_exist():
    named = set(re.findall(r"`(--[a-z-]+)", PAGE))
    assert named == {"--apply", "--to", "--by", "--all-shards"}
    assert named <= {option for parameter in commands.commands["seek"].params for option in parameter.opts}


def test_every_direction_of_a_seek_is_documented():
    table = re.findall(r"^\| ([a-z]+) \| [A-Z]", PAGE, re.MULTILINE)
    assert table == list(Direction)


def test_the_documented_job_is_defined():
    definitions = build_kinesis_stream("clicks", table="./clicks")
    assert f"`{StreamNames('clicks').job('seek')}`" in PAGE
    assert definitions.resolve_job_def(StreamNames("clicks").job("seek"))
