"""Output, effect and exit codes of `kinesis-assets catalog` and of its line of `doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from benchmarks.servers.bucket import create_bucket
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.table.raw_table import PositionedTable
from support.catalog_tables import Database
from support.shard_ids import A

if TYPE_CHECKING:
    from kinesis_assets.kinesis.settings import ClientSettings
    from support.command_line import RunCommand

pytestmark = pytest.mark.slow  # starts moto


@pytest.fixture
def database(moto: str, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database, to which the environment leads."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", moto)
    return Database(moto)


@pytest.fixture
def options(
    moto: str,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    kinesis: Any,
    stream: str,
    settings: ClientSettings,
) -> list[str]:
    """The options of a stream whose table is in a bucket and is to be registered."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    uri = f"{create_bucket(moto)}/{uuid4()}"
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    client, table = StreamClient(stream, settings), PositionedTable(uri)
    execute_run(land_group, client, table, plan_run(client, table, asked=[A], policy=ReadPolicy()))
    catalog = f"catalog={{database: {database.name}, name: clicks}}"
    return ["--stream", stream, "--table", uri, "--region", "us-east-1", "--set", catalog]


def test_an_entry_is_shown_registered_and_left_to_its_owner(
    cli: RunCommand, options: list[str], database: Database, stream: str, settings: ClientSettings
) -> None:
    def state(*command: str) -> tuple[int, dict[str, Any]]:
        done = cli("catalog", *command, *options, "--json")
        assert done.lines, done.err
        (line,) = done.lines
        return done.exit_code, line

    def of_doctor() -> list[dict[str, Any]]:
        place = ["--endpoint-url", str(settings.endpoint_url)]
        return [
            line for line in cli("doctor", *options, *place, "--json").lines if line["check"] == "catalog"
        ]

    entry = f"{database.name}.clicks"
    code, line = state("show")
    assert (code, line) == (
        1,
        {
            "stream": stream,
            "asset": f"kinesis/{stream}_raw",
            "entry": entry,
            "state": "missing",
            "reason": "the next tick or run tries to register the table",
        },
    )
    assert state("register")[1]["state"] == "created"
    code, line = state("show")
    assert (code, line["state"]) == (0, "registered")
    storage = database.entry("clicks")["StorageDescriptor"]
    database.change("clicks", StorageDescriptor=storage | {"Location": "s3://elsewhere/"})
    assert state("show")[1]["state"] == "of others"
    code, line = state("register")
    assert (code, line["state"]) == (1, "failed")
    assert "--force" in line["reason"]
    doctor = of_doctor()
    assert [line["level"] for line in doctor] == ["problem"]
    assert "somebody has changed the columns" in doctor[0]["sentence"]
    assert state("register", "--force") == (0, line | {"state": "updated", "reason": None})
    doctor = of_doctor()
    assert [(line["level"], line["sentence"]) for line in doctor] == [
        ("ok", "all tables with the setting catalog are registered")
    ]


def test_the_entry_of_a_removed_asset_is_reported_and_stays(
    cli: RunCommand, options: list[str], database: Database
) -> None:
    assert cli("catalog", "register", *options).exit_code == 0
    renamed = [each.replace("name: clicks", "name: renamed") for each in options]
    assert cli("catalog", "register", *renamed).exit_code == 0
    done = cli("catalog", "show", *renamed, "--json")
    assert done.exit_code == 0
    assert {line["entry"].partition(".")[2]: line["state"] for line in done.lines} == {
        "renamed": "registered",
        "clicks": "no asset",
    }
    assert f"aws glue delete-table --database-name {database.name} --name clicks" in done.lines[1]["reason"]
    assert database.columns("clicks") == database.columns("renamed")


def test_nothing_is_asked_about_a_table_on_a_disk(
    cli: RunCommand, options: list[str], monkeypatch: pytest.MonkeyPatch, table: PositionedTable
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", "http://127.0.0.1:9")
    options[options.index("--table") + 1] = table.uri
    for command in ("show", "register"):
        done = cli("catalog", command, *options, "--json")
        assert (done.exit_code, [line["state"] for line in done.lines]) == (0, ["on a disk"])


def test_a_stream_without_the_setting_has_no_entries(
    cli: RunCommand, stream: str, table: PositionedTable
) -> None:
    done = cli("catalog", "show", "--stream", stream, "--table", table.uri)
    assert (done.exit_code, done.out) == (0, "")
    assert done.err == "No table of the stream has the setting catalog.\n"


def test_an_asset_without_the_setting_is_refused(cli: RunCommand, options: list[str]) -> None:
    done = cli("catalog", "register", *options, "--asset", "orders")
    assert done.exit_code == 2
    assert "asset orders: it has no setting catalog; the tables with one are kinesis/" in done.err
