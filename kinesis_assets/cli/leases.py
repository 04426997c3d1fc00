"""`leases import` and `leases export`: hand a stream over from another consumer, and back."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kinesis_assets.cli.options import (
    POSITIONS,
    SecondsRange,
    apply_option,
    by_option,
    json_option,
    project_of,
    stream_options,
    user_name,
)
from kinesis_assets.cli.output import print_plan
from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.operations.leases.lease_table import LeaseTable
    from kinesis_assets.operations.leases.starts import ConsumerShard

IN_DYNAMODB, IN_FILES = ("kcl", "redpanda"), ("spark", "flink", "json")


def _table_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a DynamoDB table to a command."""
    for option in (
        click.option(
            "--failover-time",
            type=SecondsRange(0, min_open=True, max=3600),
            default=10.0,
            show_default=True,
            help="Seconds in which a live worker renews its leases: its failover time.",
        ),
        click.option(
            "--lease-role-arn", help="ARN of a role that uses the lease table. [default: the stream's]"
        ),
        click.option("--lease-profile", help="Profile of the lease table. [default: the stream's]"),
        click.option("--lease-endpoint-url", help="Endpoint of DynamoDB. [default: that of the region]"),
        click.option(
            "--lease-region", help="Region of the lease table. [default: that of its ARN, or the stream's]"
        ),
    ):
        command = option(command)
    return command


@click.group()
def leases() -> None:
    """Hand a stream over from another consumer, and back."""


@leases.command("import")
@stream_options("on_data_loss")
@click.option(
    "--from",
    "consumer",
    type=click.Choice([*IN_DYNAMODB, *IN_FILES]),
    default="kcl",
    show_default=True,
    help="The other consumer: an application of the Kinesis Client Library, Redpanda Connect, Spark's "
    "Kinesis connector, Flink, or any other, by a JSON file.",
)
@click.option("--lease-table", help="DynamoDB table of the consumer. For kcl and redpanda.")
@click.option(
    "--path",
    help="Path of the consumer's positions: the checkpoint folder of the query (or its URI), for spark; a "
    "file, for flink and json.",
)
@_table_options
@click.option(
    "--default",
    help="Start of each shard for which the consumer has no position that is fixed in time: "
    f"{POSITIONS}. [default: such shards are refused]",
)
@by_option
@apply_option
@json_option
def import_(
    *,
    consumer: str,
    lease_table: str | None,
    path: str | None,
    failover_time: float,
    default: str | None,
    by: str | None,
    apply: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Start a new table where another consumer has stopped.

    Stop the consumer first. One commit sets the position of each shard, also inside an aggregated record. No
    row is added, and nothing of the consumer is changed. If it is still alive, or if anything that it stores
    is not understood, nothing is changed.
    """
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.operations.leases.import_leases import facts_of_import, take_over

    needed, other = ("--lease-table", "--path") if consumer in IN_DYNAMODB else ("--path", "--lease-table")
    given = {"--lease-table": lease_table, "--path": path}
    if given[needed] is None or given[other] is not None:
        raise InvalidInput(f"--from {consumer}: give {needed}, and no {other}")
    start = None if default is None else Position.parse(default)
    connection = _connection(options)
    project = project_of(**options)
    with project.open_stream() as opened:
        if lease_table is not None:
            stored = _from_table(
                opened, consumer, _lease_table(opened, lease_table, connection), failover_time
            )
        else:
            stored = _from_files(opened, consumer, str(path))
        shards = take_over(
            opened.client,
            opened.table,
            stored,
            default=start,
            on_data_loss=opened.settings.on_data_loss,
            by=user_name(by),
            apply=apply,
        )
    print_plan(project.stream, facts_of_import(shards, applied=apply), applied=apply, as_json=as_json)


@leases.command("export")
@stream_options()
@click.option("--lease-table", required=True, help="DynamoDB table of the KCL application. It must exist.")
@_table_options
@click.option(
    "--several-streams",
    is_flag=True,
    help="The application has several streams, and its leases name them. Needed if this one has none yet.",
)
@apply_option
@json_option
def export(
    *,
    lease_table: str,
    failover_time: float,
    several_streams: bool,
    apply: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Write the positions of a table as leases of the KCL.

    Pause the stream and stop the application first. Each lease is written on the condition that nobody has
    changed it. Afterwards the stream stays paused; start the application.
    """
    from kinesis_assets.operations.leases.export_leases import facts_of_export, hand_over

    connection = _connection(options)
    project = project_of(**options)
    with project.open_stream() as opened:
        shards = hand_over(
            opened.client,
            opened.table,
            _lease_table(opened, lease_table, connection),
            several_streams=several_streams,
            failover_seconds=failover_time,
            sleep=time.sleep,
            apply=apply,
        )
    print_plan(project.stream, facts_of_export(shards, applied=apply), applied=apply, as_json=as_json)


_CONNECTION = ("region", "endpoint_url", "profile", "role_arn")


def _connection(options: dict[str, Any]) -> dict[str, str | None]:
    """Remove the options of the lease table's connection from all options, and return them."""
    return {name: options.pop(f"lease_{name}") for name in _CONNECTION}


def _lease_table(opened: OpenStream, name: str, connection: Mapping[str, str | None]) -> LeaseTable:
    """Return a table, by default with the region and the credentials of the stream."""
    from kinesis_assets.kinesis.role import AssumedRole, default_session_name
    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.operations.leases.lease_table import LeaseTable, region_of

    region = connection["region"] or region_of(name, opened.client.settings.region_name)
    profile = connection["profile"] or opened.kinesis.profile_name
    role = opened.role if connection["profile"] is None else None
    if (role_arn := connection["role_arn"]) is not None:
        role = AssumedRole(role_arn, default_session_name(opened.name), None, profile, region)
    return LeaseTable(name, ClientSettings(region, connection["endpoint_url"], profile, role=role))


def _from_table(
    opened: OpenStream, consumer: str, table: LeaseTable, failover_time: float
) -> Mapping[str, ConsumerShard]:
    """Return where a consumer is whose positions are in a table that does not change."""
    from kinesis_assets.operations.leases import lease, other_consumers

    identity = opened.client.describe().identity
    module = other_consumers if consumer == "redpanda" else lease
    items = table.items_at_rest(
        opened.name, partial(module.signs_of_life, identity=identity), seconds=failover_time, sleep=time.sleep
    )
    if consumer == "redpanda":
        return other_consumers.of_redpanda(items, identity)
    return lease.leases_of(items, identity).by_shard


def _from_files(opened: OpenStream, consumer: str, path: str) -> Mapping[str, ConsumerShard]:
    """Return where a consumer is whose positions are in files."""
    from kinesis_assets.operations.leases.other_consumers import of_flink, of_json, of_spark
    from kinesis_assets.table.store.storage import TableFolder

    if consumer == "spark":
        return of_spark(TableFolder.at(path, opened.role), opened.name)
    return (of_flink if consumer == "flink" else of_json)(path)
