"""Output, effect and exit codes of `kinesis-assets leases import` and `export`."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.kinesis import client as client_module
from kinesis_assets.operations.leases import lease_table
from support.command_line import single_line_error
from support.shard_ids import A, B

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kinesis_assets.kinesis.settings import ClientSettings
    from support.command_line import RunCommand
    from support.lease_items import LeaseItems

pytestmark = pytest.mark.slow  # starts moto


@pytest.fixture
def number(kinesis: Any, stream: str) -> str:
    """The sequence number of the first of two records, which are in the first of two shards."""
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    entries = [{"Data": b"a", "PartitionKey": "k", "ExplicitHashKey": "0"}] * 2
    response = kinesis.put_records(StreamName=stream, Records=entries)
    return str(response["Records"][0]["SequenceNumber"])


@pytest.fixture
def options(stream_options: list[str], leases: LeaseItems) -> list[str]:
    """The options that name the stream, its table and its lease table."""
    place = ["--lease-endpoint-url", leases.endpoint, "--failover-time", "0.01"]
    return [*stream_options, "--lease-table", leases.name, *place]


def test_leases_are_imported_and_exported_again(
    cli: RunCommand,
    options: list[str],
    leases: LeaseItems,
    number: str,
    stream: str,
    stream_options: list[str],
) -> None:
    leases.lease(A, number)
    leases.lease(B, "TRIM_HORIZON")
    planned = cli("leases", "import", *options, "--json")
    assert planned.exit_code == 0, planned.err
    assert planned.by_shard[A] == {
        "stream": stream,
        "shard": A,
        "stored": f"{number}:0",
        "position": f"AFTER_SEQUENCE_NUMBER:{number}",
        "effect": "starts",
        "reason": None,
        "applied": False,
    }
    assert "--apply" in planned.err
    done = cli("leases", "import", *options, "--by", "ann", "--apply", "--json")
    assert all(line["applied"] for line in done.lines), done.err
    positions = cli("positions", *stream_options, "--json").by_shard
    assert {shard: row["position"] for shard, row in positions.items()} == {
        shard: row["position"] for shard, row in done.by_shard.items()
    }
    assert cli("leases", "import", *options, "--apply").exit_code == 2

    assert "kinesis-assets pause" in single_line_error(cli("leases", "export", *options, "--apply").err)
    assert cli("pause", *stream_options, "--reason", "the application goes on").exit_code == 0
    exported = cli("leases", "export", *options, "--apply", "--json")
    assert exported.exit_code == 0, exported.err
    assert exported.by_shard[A] == {
        "stream": stream,
        "shard": A,
        "lease": f"{number}:0",
        "checkpoint": f"{number}:0",
        "effect": "same",
        "applied": True,
    }
    assert {key: item["leaseCounter"] for key, item in leases.items.items()} == {A: 8, B: 8}


def test_a_refused_lease_fails_with_one_line(
    cli: RunCommand, options: list[str], leases: LeaseItems, number: str
) -> None:
    leases.lease(A, number, pendingCheckpoint=number)
    done = cli("leases", "import", *options)
    assert (done.exit_code, done.out) == (1, "")
    assert f"lease {A}: it has a pending checkpoint" in single_line_error(done.err)


@pytest.mark.usefixtures("number")
def test_a_lease_table_that_cannot_be_read_fails_with_one_line(cli: RunCommand, options: list[str]) -> None:
    missing = ["none" if each.startswith("leases-") else each for each in options]
    done = cli("leases", "export", *missing)
    assert done.exit_code in {1, 2}
    done = cli("leases", "import", *missing)
    assert done.exit_code == 1
    assert "dynamodb:Scan" in done.err or "create-table" in done.err


def test_a_default_starts_shards_without_a_position(
    cli: RunCommand, options: list[str], leases: LeaseItems, number: str
) -> None:
    leases.lease(A, number)
    assert "--default" in cli("leases", "import", *options).err
    done = cli("leases", "import", *options, "--default", "TRIM_HORIZON", "--json")
    assert done.by_shard[B]["position"] == "TRIM_HORIZON"


def test_positions_are_imported_from_a_file(
    cli: RunCommand, stream_options: list[str], number: str, tmp_path: Path
) -> None:
    file = tmp_path / "positions.json"
    file.write_text(json.dumps({A: number, B: "TRIM_HORIZON"}))
    done = cli("leases", "import", *stream_options, "--from", "json", "--path", str(file), "--json")
    assert done.by_shard[A]["position"] == f"AFTER_SEQUENCE_NUMBER:{number}"


ROLE = "arn:aws:iam::111122223333:role/leases"
ARN = "arn:aws:dynamodb:eu-west-1:111122223333:table/t"
STREAM_ROLE = ["--set", "role_arn=arn:aws:iam::111122223333:role/a"]


@pytest.mark.usefixtures("number")
@pytest.mark.parametrize(
    ("given", "region", "profile", "role"),
    [
        ([], "us-east-1", None, None),
        (STREAM_ROLE, "us-east-1", None, "role/a"),
        (["--lease-region", "eu-west-1"], "eu-west-1", None, None),
        (["--lease-table", ARN], "eu-west-1", None, None),
        (["--lease-role-arn", ROLE, "--lease-profile", "other"], "us-east-1", "other", "role/leases"),
        (
            [*STREAM_ROLE, "--lease-profile", "b"],
            "us-east-1",
            "b",
            None,
        ),
    ],
)
def test_the_lease_table_has_the_region_and_credentials_of_the_stream_or_its_own(
    cli: RunCommand,
    stream_options: list[str],
    monkeypatch: pytest.MonkeyPatch,
    given: list[str],
    region: str,
    profile: str | None,
    role: str | None,
) -> None:
    opened: list[ClientSettings] = []

    def client(settings: ClientSettings, attempts: int, service: str) -> Any:
        assert (attempts, service) == (6, "dynamodb")
        opened.append(settings)
        return SimpleNamespace(scan=lambda **_: {"Items": []})

    monkeypatch.setattr(lease_table, "sdk_client", client)
    monkeypatch.setattr(client_module, "sdk_client", without_role(client_module.sdk_client))
    done = cli("leases", "import", *stream_options, "--lease-table", "t", *given)
    assert done.exit_code == 2
    assert "stores no position" in single_line_error(done.err)
    (settings,) = opened
    assert (settings.region_name, settings.profile_name, settings.endpoint_url) == (region, profile, None)
    assert (settings.role and settings.role.arn.partition("333:")[2]) == role


def without_role(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes a client of Kinesis without assuming a role."""
    return lambda settings, attempts: make(replace(settings, role=None), attempts)


@pytest.mark.parametrize(
    "given",
    [
        [],
        ["--from", "spark", "--lease-table", "t"],
        ["--from", "kcl", "--path", "p"],
        ["--from", "json", "--path", "p", "--lease-table", "t"],
        ["--lease-table", "t", "--default", "somewhere"],
    ],
)
def test_options_that_do_not_fit_are_bad_input(
    cli: RunCommand, stream_options: list[str], given: list[str]
) -> None:
    done = cli("leases", "import", *stream_options, *given)
    assert (done.exit_code, done.out) == (2, "")
    single_line_error(done.err)


def test_a_failover_time_that_is_no_number_is_refused(cli: RunCommand, stream_options: list[str]) -> None:
    done = cli("leases", "export", *stream_options, "--lease-table", "t", "--failover-time", "nan")
    assert (done.exit_code, done.out) == (2, "")
    assert "Error: Invalid value for '--failover-time'" in done.err
