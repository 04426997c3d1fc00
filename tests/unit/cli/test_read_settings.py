"""A command has the options of those settings that it reads."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock
from uuid import uuid4

import click
import pytest

from benchmarks.servers.bucket import create_bucket
from kinesis_assets.cli.command_line import commands
from kinesis_assets.cli.options import FORMAT
from kinesis_assets.dagster import stream_project
from kinesis_assets.dagster.io_manager import ShardIOManager
from kinesis_assets.dagster.kinesis_resource import KinesisResource
from kinesis_assets.dagster.settings.stream_settings import StreamSettings
from kinesis_assets.dagster.steps import bounded_step
from kinesis_assets.dagster.stream import OpenStream
from kinesis_assets.errors import LandingFailed
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position
from kinesis_assets.operations.replay import task
from kinesis_assets.spark import session
from kinesis_assets.table.commits.commit import freeze
from kinesis_assets.table.raw_table import PositionedTable
from support.single_task import fill_as_in_spark, land_as_in_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

SETTINGS = StreamSettings.model_fields.keys() - {"stream", "table"}
ARGUMENTS = {
    "pause": ["--reason", "a test"],
    "seek": ["--to", "TRIM_HORIZON", "--all-shards"],
    "catch-up": ["--apply"],
    "replay": ["--from", "TRIM_HORIZON"],
    "doctor": ["--rows"],
    "compare": ["--with", "other", "--key", "shard", "--key", "number"],
    "consumer register": ["--name", "lake"],
    "consumer deregister": ["--name", "lake"],
    "leases import": ["--from", "json", "--path", "positions.json"],
    "leases export": ["--lease-table", "t"],
    "catalog show": ["--set", "catalog={database: lake}"],
    "catalog register": ["--set", "catalog={database: lake}"],
}
"""What a command needs besides the stream, to read all settings that it ever reads."""

WITHOUT_EFFECT = {"key_prefix", "calls_per_second", "follow_for", "keep_unconsumed_days", "format", "catalog"}
"""What commands read although it has no effect in them: without events to report, records to read, a run
that is continuous, tables that are derived, or a table that is opened."""

OF_A_ROLE = {"external_id", "session_name"}
"""What a command reads only with `role_arn`."""

OF_ICEBERG = {*FORMAT} - {"format"}
"""What most commands read only of an Iceberg table."""

VALIDATING = ("_check", "opened", "checks_of_stream", "_accept")
"""Functions that read settings to validate them, by how their names start."""


def on_a_stream(group: click.Group = commands, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from on_a_stream(command, f"{prefix}{name} ")
        elif any("--set" in parameter.opts for parameter in command.params):
            yield f"{prefix}{name}", command


ON_A_STREAM = dict(on_a_stream())


@pytest.fixture
def read(monkeypatch) -> set[str]:
    """The settings that the package has read of a stream, other than to validate them."""
    found: set[str] = set()
    for kind in (ShardIOManager, KinesisResource):

        def get(self: Any, name: str, get: Any = kind.__getattribute__) -> Any:
            reader = inspect.currentframe().f_back
            is_ours = reader.f_globals["__name__"].startswith("kinesis_assets.")
            if is_ours and not any(
                frame.f_code.co_name.startswith(VALIDATING) for frame in (reader, reader.f_back)
            ):
                found.add(name)
            return get(self, name)

        monkeypatch.setattr(kind, "__getattribute__", get)
    return found


@pytest.fixture
def without_spark(monkeypatch) -> None:
    """Runs read in this process, and a command that needs Spark itself fails."""

    def start_spark(opened: OpenStream) -> Any:
        assert opened.settings.session_config
        if opened.run_id is None:
            raise LandingFailed("there is no Spark")
        return MagicMock()

    monkeypatch.setattr(OpenStream, "start_spark", start_spark)
    monkeypatch.setattr(bounded_step, "land", lambda _, *arguments: land_as_in_spark(*arguments))
    monkeypatch.setattr(task, "fill", lambda _, *arguments: fill_as_in_spark(*arguments))
    for module in (stream_project, session):
        monkeypatch.setattr(module, "prepare", lambda _: None)
    monkeypatch.setattr(stream_project, "start_session_in_background", lambda _: None)


@pytest.fixture
def frozen(kinesis, stream, settings, table) -> None:
    """A stream with a record, and its table without rows."""
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.put_record(StreamName=stream, Data=b"a", PartitionKey="k")
    listing = StreamClient(stream, settings).listing()
    freeze(table, listing, {shard.shard_id: Position.parse("TRIM_HORIZON") for shard in listing.shards})


@pytest.fixture
def table_in_bucket(moto, monkeypatch) -> str:
    """The URI of an empty table in a bucket, which can be registered."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    uri = f"{create_bucket(moto)}/{uuid4()}"
    PositionedTable(uri).create_if_missing()
    return uri


@pytest.mark.usefixtures("without_spark", "frozen")
@pytest.mark.parametrize("name", [name for name in ON_A_STREAM if name != "show"])
def test_a_command_has_the_options_of_the_settings_that_it_reads(
    cli, stream, settings, table, read, name, tmp_path, monkeypatch, request
):
    (tmp_path / "positions.json").write_text('{"shardId-000000000000": "LATEST"}')
    monkeypatch.chdir(tmp_path)
    opens_table = any("--table" in parameter.opts for parameter in ON_A_STREAM[name].params)
    place = ["--stream", stream, "--endpoint-url", str(settings.endpoint_url)]
    place += ["--table", table.uri] if opens_table else []
    if name.startswith("catalog "):
        place = ["--stream", stream, "--table", request.getfixturevalue("table_in_bucket")]
    arguments = [*name.split(), *place, *ARGUMENTS.get(name, [])]
    (accepted,) = re.findall("this command reads (.+)", cli(*arguments, "--set", "=").err)
    accepted = {*accepted.split(", ")}

    read.clear()
    cli(*arguments)
    if name == "doctor":
        cli(*arguments[:-1])  # with --rows, it ends before it compares catalogs, without Spark

    assert accepted - OF_ICEBERG <= read | (OF_A_ROLE if "role_arn" in read else set())
    assert SETTINGS & read <= accepted | WITHOUT_EFFECT
