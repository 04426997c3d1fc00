"""`catalog show` and `catalog register`: the entries of a stream's tables in the AWS Glue Data Catalog."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kinesis_assets.cli.options import FAILED, json_option, project_of, stream_options
from kinesis_assets.cli.output import print_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinesis_assets.dagster.catalog_entries import EntryStatus

_asset_option = click.option("--asset", help="Asset key of the only table. [default: all of the stream]")


@click.group()
def catalog() -> None:
    """Show and register tables in the AWS Glue Data Catalog.

    They are the raw table of a stream and the tables derived from it that have the setting `catalog`. Runs
    and the sensor register them too.
    """


@catalog.command()
@stream_options("key_prefix", kinesis=False)
@_asset_option
@json_option
def show(*, asset: str | None, as_json: bool, **stream: Any) -> None:
    """Compare the entries with the tables, and change nothing.

    Entries whose asset was removed are listed too. The exit code is 0 only if all tables that exist are
    registered.
    """
    from kinesis_assets.dagster.catalog_entries import (  # each command imports only what it needs
        entries_without_asset,
        registered_tables,
    )

    project = project_of(**stream)
    with project.open_stream() as opened:
        tables = registered_tables(opened, project.assets, asset)
        found = [each.compared() for each in tables]
        if asset is None:
            found += entries_without_asset(tables)
    _finish(project.stream, found, as_json=as_json)


@catalog.command()
@stream_options("key_prefix", kinesis=False)
@_asset_option
@click.option("--force", is_flag=True, help="Replace an entry also if somebody else made or changed it.")
@json_option
def register(*, asset: str | None, force: bool, as_json: bool, **stream: Any) -> None:
    """Register the tables now. The exit code is 0 only if all tables that exist are registered.

    An entry that somebody else made or changed stays as it is, unless --force is given.
    """
    from kinesis_assets.dagster.catalog_entries import registered_tables  # as above

    project = project_of(**stream)
    with project.open_stream() as opened:
        found = [each.register(force=force) for each in registered_tables(opened, project.assets, asset)]
    _finish(project.stream, found, as_json=as_json)


def _finish(stream: str, found: Sequence[EntryStatus], *, as_json: bool) -> None:
    from kinesis_assets.dagster.catalog_entries import GOOD, HARMLESS  # as above

    print_rows([{"stream": stream, **each.facts} for each in found], as_json=as_json)
    if not found:
        click.echo("No table of the stream has the setting catalog.", err=True)
    sys.exit(0 if all(each.state in GOOD | HARMLESS for each in found) else FAILED)
