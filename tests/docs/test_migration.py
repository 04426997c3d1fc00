"""docs/migration.md agrees with the code, and its commands run."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from kinesis_assets.cli.command_line import commands
from kinesis_assets.dagster.settings.stream_settings import StreamSettings
from kinesis_assets.kinesis.position import Position
from kinesis_assets.metrics import LEASE_TABLE_LAG
from kinesis_assets.operations.leases.export_leases import ExportEffect
from kinesis_assets.operations.leases.import_leases import ImportEffect
from kinesis_assets.operations.leases.other_consumers import REDPANDA_KEY, of_flink, of_json
from support.lease_items import LeaseItems

PAGE = (Path(__file__).parents[2] / "docs" / "migration.md").read_text()


def section(title):
    """Return the text of a section."""
    (found,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return found


def blocks(title, language):
    """Return the blocks of a section in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", section(title), re.MULTILINE | re.DOTALL)


def command_lines(title):
    return [shlex.split(line)[1:] for block in blocks(title, "sh") for line in block.splitlines()]


SECTIONS = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)


@pytest.fixture
def migrate(clicks, cli, kinesis, moto, monkeypatch, tmp_path):
    """Run the commands of a section on a stream with ten records in one shard, without waiting."""
    del clicks, kinesis
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", moto)

    def run(title):
        done = []
        for line in command_lines(title):
            also = ["--failover-time", "0.01"] if line[0] == "leases" else []
            done.append(cli(*line, *also))
            assert done[-1].exit_code == 0, done[-1].err
        return done

    return run


SHARD = "shardId-000000000000"


@pytest.fixture
def number(clicks, kinesis):
    """The sequence number of the third record."""
    del clicks
    iterator = kinesis.get_shard_iterator(
        StreamName="clicks", ShardId=SHARD, ShardIteratorType="TRIM_HORIZON"
    )
    return kinesis.get_records(ShardIterator=iterator["ShardIterator"])["Records"][2]["SequenceNumber"]


@pytest.fixture
def application(moto):
    leases = LeaseItems(moto, name="clicks-app")
    yield leases
    leases.delete()


def position(cli):
    return cli("positions", "--stream", "clicks", "--table", "./clicks", "--json").by_shard[SHARD]["position"]


def test_every_section_with_commands_is_run():
    assert [title for title in SECTIONS if blocks(title, "sh")] == [
        "From the Kinesis Client Library",
        "From Spark",
        "From Flink",
        "From Redpanda Connect",
        "From Lambda and Firehose",
        "From any other consumer",
        "Prove it",
        "Go back",
    ]


def test_leases_are_imported_verified_and_exported(migrate, cli, application, number):
    application.lease(SHARD, number)
    planned, done = migrate("From the Kinesis Client Library")
    assert planned.out.replace("False", "True ").split() == done.out.split()
    (header,) = re.findall(r"^```\n(shard .+)$", section("From the Kinesis Client Library"), re.MULTILINE)
    assert planned.out.splitlines()[0].split() == header.split()
    assert position(cli) == f"AFTER_SEQUENCE_NUMBER:{number}"
    migrate("Prove it")
    migrate("Go back")
    assert application.items[SHARD]["leaseCounter"] == 8


def test_a_checkpoint_of_spark_is_imported(migrate, cli, number, tmp_path):
    offsets = {
        "metadata": {"batchId": "0", "streamName": "clicks"},
        SHARD: {
            "iteratorType": "TRIM_HORIZON",
            "iteratorPosition": "",
            "subSequenceNumber": "-1",
            "isLast": "true",
        },
    }
    end = {
        "shardId": SHARD,
        "iteratorType": "AFTER_SEQUENCE_NUMBER",
        "iteratorPosition": number,
        "subSequenceNumber": -1,
        "isLast": True,
    }
    for path, content in {
        "offsets/0": f"v1\n{{}}\n{json.dumps(offsets)}",
        "commits/0": "v1\n{}",
        f"sources/0/shard-source/0/{SHARD}": json.dumps(end),
    }.items():
        file = tmp_path / "checkpoint" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    migrate("From Spark")
    assert position(cli) == f"AFTER_SEQUENCE_NUMBER:{number}"


def test_the_state_of_flink_is_imported(migrate, cli, number, tmp_path):
    state = {"shardId": SHARD, "sequenceNumber": number, "subSequenceNumber": -1}
    (tmp_path / "positions-of-flink.json").write_text(json.dumps(state))
    migrate("From Flink")
    assert position(cli) == f"AFTER_SEQUENCE_NUMBER:{number}"


def test_the_checkpoints_of_redpanda_connect_are_imported(migrate, cli, moto, number):
    table = LeaseItems(moto, *REDPANDA_KEY, name="connect")
    table.put(StreamID="clicks", ShardID=SHARD, SequenceNumber=number)
    migrate("From Redpanda Connect")
    table.delete()
    assert position(cli) == f"AFTER_SEQUENCE_NUMBER:{number}"


def test_a_start_by_time_is_planned(migrate):
    (planned,) = migrate("From Lambda and Firehose")
    assert "AT_TIMESTAMP:2026-01-31T12:00:00Z" in planned.out


def test_a_json_file_is_imported(migrate, cli, number, tmp_path):
    (tmp_path / "positions.json").write_text(json.dumps({SHARD: number}))
    migrate("From any other consumer")
    assert position(cli) == f"AFTER_SEQUENCE_NUMBER:{number}"


@pytest.mark.parametrize(("title", "read"), [("From Flink", of_flink), ("From any other consumer", of_json)])
def test_the_shown_positions_are_understood(title, read, tmp_path):
    (shown,) = blocks(title, "json")
    (tmp_path / "shown").write_text(shown)
    first, second, third = read(str(tmp_path / "shown")).values()
    assert first.ended
    number = "49668337718924846371612911"
    assert second.position in {Position.after(number), Position.after(number, 2)}
    assert third.position in {
        Position.after("49668337718924846371612927"),
        Position.after("49668337718924846371612927", 3),
    }


def test_every_effect_is_documented():
    def documented(title):
        cells = re.findall(r"^\| ([a-z ,]+) \| (?=[A-Z])", section(title), re.MULTILINE)
        return {name for cell in cells for name in cell.split(", ")}

    assert documented("From the Kinesis Client Library") == {*map(str, ImportEffect)}
    assert documented("Go back") == {*map(str, ExportEffect)}


def test_the_documented_failover_time_is_the_default():
    options = commands.commands["leases"].commands["import"].params
    (default,) = [option.default for option in options if option.name == "failover_time"]
    assert f"`--failover-time` ({default:g} s)" in PAGE


def test_the_documented_setting_and_metric_exist():
    assert f"`{LEASE_TABLE_LAG.name}`" in section("Mirror the positions")
    (name,) = re.findall(r"with `(\w+): [\w-]+` in the settings", PAGE)
    assert name in StreamSettings.model_fields


def test_the_documented_options_exist():
    group = commands.commands["leases"].commands
    options = {name for command in group.values() for option in command.params for name in option.opts}
    assert {*re.findall(r"`(--[a-z-]+)", PAGE)} <= options
