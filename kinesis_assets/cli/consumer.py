"""`consumer`: register and deregister the consumers of a stream with enhanced fan-out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kinesis_assets.cli.options import json_option, project_of, stream_options
from kinesis_assets.cli.output import print_rows
from kinesis_assets.errors import CallFailed, StreamError
from kinesis_assets.kinesis.consumers import NOT_FOUND, ConsumerAddress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kinesis_assets.kinesis.consumers import Consumer


@click.group()
def consumer() -> None:
    """Show, register and deregister consumers with enhanced fan-out.

    Nothing else registers or deregisters one. The setting `consumer` names the one by which continuous runs
    read.
    """


@consumer.command()
@stream_options(table=False)
@json_option
def show(*, as_json: bool, **stream: Any) -> None:
    """Print the registered consumers of a stream."""
    with project_of(**stream).open_stream() as opened:
        arn = opened.client.describe().identity.arn
        found = opened.client.list_consumers(arn)
        _print(opened.name, found, as_json=as_json)
    if not found:
        click.echo("The stream has no registered consumer.", err=True)


@consumer.command()
@stream_options(table=False)
@click.option("--name", required=True, help="Name of the new consumer.")
@json_option
def register(*, name: str, as_json: bool, **stream: Any) -> None:
    """Register a consumer of a stream.

    From then on, AWS charges for each hour and shard, whether the consumer reads or not.
    """
    ConsumerAddress.parse(name)
    with project_of(**stream).open_stream() as opened:
        arn = opened.client.describe().identity.arn
        _print(opened.name, [opened.client.register_consumer(name, arn)], as_json=as_json)


@consumer.command()
@stream_options(table=False)
@click.option("--name", required=True, help="Name or ARN of the consumer.")
@json_option
def deregister(*, name: str, as_json: bool, **stream: Any) -> None:
    """Deregister a consumer of a stream. Runs that read by it go on with GetRecords."""
    with project_of(**stream).open_stream() as opened:
        arn = opened.client.describe().identity.arn
        try:
            found = opened.client.describe_consumer(name, arn)
        except CallFailed as error:
            if error.code != NOT_FOUND:
                raise
            reason = f"there is no consumer {name}, so none was deregistered"
            advice = "Show the registered ones with `kinesis-assets consumer show`"
            raise StreamError(opened.name, reason, advice=advice) from error
        opened.client.deregister_consumer(found.arn, arn)
        _print(opened.name, [found], as_json=as_json)


def _print(stream: str, consumers: Iterable[Consumer], *, as_json: bool) -> None:
    rows = [
        {
            "stream": stream,
            "name": each.name,
            "status": each.status,
            "created": each.created.isoformat(timespec="seconds"),
            "arn": each.arn,
        }
        for each in consumers
    ]
    print_rows(rows, as_json=as_json)
