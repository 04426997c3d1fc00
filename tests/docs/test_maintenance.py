"""docs/maintenance.md agrees with the code, and its commands run."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
import yaml
from deltalake import DeltaTable

from kinesis_assets import KinesisStreamComponent
from kinesis_assets.cli.command_line import commands
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.commits.commit import freeze
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
from kinesis_assets.table.maintenance.set_properties import SETTABLE
from kinesis_assets.table.positions.amendments import FORMAT, Amendment
from kinesis_assets.table.raw_table import PositionedTable
from support.dagster_components import definitions_of

PAGE = (Path(__file__).parents[2] / "docs" / "maintenance.md").read_text()


@pytest.fixture
def clicks(kinesis, settings, tmp_path, monkeypatch):
    """The page's stream and an empty table of it, in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", settings.endpoint_url)
    kinesis.create_stream(StreamName="clicks", ShardCount=1)
    listing = StreamClient("clicks", settings).listing()
    starts = {shard.shard_id: Position(PositionKind.TRIM_HORIZON) for shard in listing.shards}
    table = PositionedTable("clicks")
    freeze(table, listing, starts)
    yield table, listing.summary.identity
    kinesis.delete_stream(StreamName="clicks")


BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def run(block: str) -> None:
    for line in block.replace("\\\n", " ").splitlines():
        name, *arguments = shlex.split(line)
        assert name == "kinesis-assets"
        commands(arguments, standalone_mode=False)


@pytest.mark.usefixtures("clicks")
def test_the_maintenance_commands_run():
    run(BLOCKS[0])
    assert DeltaTable("clicks").version() == 1


def test_the_documented_command_lowers_the_retention_floor(clicks):
    table, identity = clicks
    entry = Amendment(
        format=FORMAT, commit_id=1, previous=None, batch_id=1, at=datetime.now(UTC), floor=date(2026, 3, 1)
    )
    table.snapshot().commit([], identity=identity, amendment=entry)
    run(BLOCKS[2])
    amendment = table.snapshot().amendment(identity)
    assert (amendment.floor, amendment.lowered_from, amendment.by) == (
        date(2026, 1, 31),
        date(2026, 3, 1),
        "ada",
    )


def test_every_settable_property_is_documented():
    assert len(SETTABLE) == 3
    assert all(name in PAGE for name in SETTABLE)


def test_the_yaml_block_defines_the_schedule():
    (text,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    attributes = yaml.safe_load(text)["attributes"]
    (schedule,) = definitions_of(KinesisStreamComponent(**attributes)).schedules or ()
    assert schedule.cron_schedule == attributes["maintenance_schedule"]


def test_maintenance_keeps_the_retention_properties_that_a_user_sets(clicks):
    table, _ = clicks
    own = dict(re.findall(r'"(delta\.\w+)=(interval \d+ days)"', BLOCKS[1]))
    assert len(own) == 2
    run(BLOCKS[1])
    assert DeltaOperations(table).missing_properties() == {}
    assert own.items() <= DeltaTable(table.folder.uri).metadata().configuration.items()
