"""What docs/maintenance.md says is so."""

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
from kinesis_assets.table.amendments import FORMAT, Amendment
from kinesis_assets.table.commit import freeze
from kinesis_assets.table.maintenance.set_properties import SETTABLE
from kinesis_assets.table.table import PositionedTable
from kinesis_assets.table.upkeep import Upkeep

PAGE = (Path(__file__).parents[2] / "docs" / "maintenance.md").read_text()


@pytest.fixture
def clicks(kinesis, settings, tmp_path, monkeypatch):
    """The page's stream and table, in the working directory."""
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
def test_the_commands_of_the_page_run():
    run(BLOCKS[0])
    assert DeltaTable("clicks").version() == 1


def test_the_floor_is_lowered_as_the_page_does_it(clicks):
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


def test_the_properties_that_can_be_set_are_those_of_the_page():
    assert len(SETTABLE) == 3
    assert all(name in PAGE for name in SETTABLE)


def test_the_yaml_of_the_page_is_a_stream_with_that_schedule():
    (text,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    attributes = yaml.safe_load(text)["attributes"]
    (schedule,) = KinesisStreamComponent(**attributes).build_defs(None).schedules or ()
    assert schedule.cron_schedule == attributes["maintenance_schedule"]


def test_the_tables_own_retentions_as_the_page_sets_them_are_kept(clicks):
    table, _ = clicks
    own = dict(re.findall(r'"(delta\.\w+)=(interval \d+ days)"', BLOCKS[1]))
    assert len(own) == 2
    run(BLOCKS[1])
    assert Upkeep(table).missing_properties() == {}
    assert own.items() <= DeltaTable(table.folder.uri).metadata().configuration.items()
