"""What the commands on a stream share: its options, the instance, how rows are printed."""

from __future__ import annotations

import getpass
import json
import os
from typing import TYPE_CHECKING, Any

import click

from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import dagster as dg

    from kinesis_assets.materialize import StreamProject

FAILED = 1
"""Exit code of what was understood and did not succeed."""

_QUIET_SPARK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}

json_option = click.option("--json", "as_json", is_flag=True, help="A JSON line each.")


def of_stream(command: Callable[..., None]) -> Callable[..., None]:
    """The options by which a command finds its stream."""
    for option in (
        click.option("--region", "region_name", help="As for the AWS SDK, with --table."),
        click.option("--endpoint-url", help="As for the AWS SDK, with --table."),
        click.option(
            "--on-recreated", type=click.Choice(["fail", "restart"]), help="As in the YAML, with --table."
        ),
        click.option(
            "--on-data-loss", type=click.Choice(["fail", "continue"]), help="As in the YAML, with --table."
        ),
        click.option(
            "--start", help="A position, or file:// and a map of shards to positions, with --table."
        ),
        click.option("--table", help="Path or URI of the table, for a stream that no YAML names."),
        click.option("--stream", required=True, help="The stream's name or ARN."),
    ):
        command = option(command)
    return command


def project_of(stream: str, table: str | None, **fields: str | None) -> StreamProject:
    """The stream that `of_stream`'s options name.

    Raises:
        InvalidInput: No YAML names it and no table is given, or the options do not go together.
    """
    from kinesis_assets.materialize import StreamProject  # noqa: PLC0415

    given = {name: value for name, value in fields.items() if value is not None}
    if table is not None:
        return StreamProject.unnamed(stream, table=table, spark_config=_QUIET_SPARK, **given)
    if given:
        options = (f"--{name.removesuffix('_name').replace('_', '-')}" for name in given)
        raise InvalidInput(f"{', '.join(options)}: only with --table; a stream with a YAML has it there")
    return StreamProject.deployed(stream)


def dagster_instance() -> dg.DagsterInstance:
    """The instance of DAGSTER_HOME, or one that is thrown away: the table holds all the state there is."""
    import dagster as dg  # noqa: PLC0415
    import yaml  # noqa: PLC0415

    if not os.environ.get("DAGSTER_HOME"):
        return dg.DagsterInstance.ephemeral()
    try:
        return dg.DagsterInstance.get()
    except (dg.DagsterError, yaml.YAMLError) as error:
        raise InvalidInput(" ".join(str(error).split())) from error


def who(by: str | None) -> str:
    """Who does something by hand: as told, or the user of this machine.

    Raises:
        InvalidInput: Neither is known.
    """
    try:
        return by or getpass.getuser()
    except (OSError, KeyError) as error:
        raise InvalidInput("this machine does not tell which user this is; say it with --by") from error


def print_rows(rows: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    """Rows of the same columns: a JSON line each, or a table without the stream that all have in common."""
    if as_json:
        for row in rows:
            click.echo(json.dumps(row))
        return
    table = [{name: _cell(value) for name, value in row.items() if name != "stream"} for row in rows]
    if table:
        _print_table([list(table[0]), *(row.values() for row in table)])


def _print_table(lines: Sequence[Iterable[str]]) -> None:
    lines = [list(line) for line in lines]
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(padded).rstrip())


def _cell(value: Any) -> str:
    if value is None or value == []:
        return "-"
    return ", ".join(value) if isinstance(value, list) else str(value)
