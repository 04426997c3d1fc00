"""What the commands on a stream share: its options, the instance, how rows are printed."""

from __future__ import annotations

import getpass
import json
import os
from typing import TYPE_CHECKING, Any

import click

from kinesis_assets.errors import InvalidInput, without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import dagster as dg

    from kinesis_assets.dagster.in_process import StreamProject

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
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="Any other setting of the YAML, with --table; the value is YAML. May be repeated.",
        ),
        click.option("--table", help="Path or URI of the table, for a stream that no YAML names."),
        click.option("--stream", required=True, help="The stream's name or ARN."),
    ):
        command = option(command)
    return command


def project_of(
    stream: str, table: str | None, *, settings: Sequence[str] = (), **fields: str | None
) -> StreamProject:
    """The stream that `of_stream`'s options name.

    Raises:
        InvalidInput: No YAML names it and no table is given, or the options do not go together.
    """
    from kinesis_assets.cli.settings import parse_settings  # noqa: PLC0415
    from kinesis_assets.dagster.in_process import StreamProject  # noqa: PLC0415
    from kinesis_assets.definitions import defs  # noqa: PLC0415

    given: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    if table is not None:
        also = parse_settings(settings)
        if both := [*given.keys() & also.keys()]:
            raise InvalidInput(f"{_option(both[0])} and --set {both[0]}: give one of them")
        given |= also
        # A server that a run attaches to has its own settings, and warns of any other.
        spark_config = {} if os.environ.get("SPARK_REMOTE") else _QUIET_SPARK
        given["spark_config"] = spark_config | given.get("spark_config", {})
        return StreamProject.unnamed(stream, table=table, **given)
    if given or settings:
        options = [*map(_option, given), *(["--set"] if settings else [])]
        raise InvalidInput(f"{', '.join(options)}: only with --table; a stream with a YAML has it there")
    return StreamProject.deployed(stream, defs)


def _option(name: str) -> str:
    return f"--{name.removesuffix('_name').replace('_', '-')}"


def dagster_instance() -> dg.DagsterInstance:
    """The instance of DAGSTER_HOME, or one that is thrown away: the table holds all the state there is."""
    import dagster as dg  # noqa: PLC0415
    import yaml  # noqa: PLC0415

    if not os.environ.get("DAGSTER_HOME"):
        return dg.DagsterInstance.ephemeral()
    try:
        instance = dg.DagsterInstance.get()
        instance.get_runs_count()  # a database may open and still be unusable
    except Exception as error:
        if isinstance(error, (dg.DagsterError, yaml.YAMLError)):
            raise InvalidInput(str(error)) from error
        said = str(error) if isinstance(error, OSError) else said_by_storage(error)
        if said is None:
            raise
        raise InvalidInput(f"DAGSTER_HOME is {os.environ['DAGSTER_HOME']}: {said}") from error
    return instance


def said_by_storage(error: Exception) -> str | None:
    """What the storage of a Dagster instance raised; None if it is another's error."""
    # Dagster lets through what its driver raises; no command opens another database.
    if not type(error).__module__.startswith(("sqlalchemy.", "alembic.")):
        return None
    return without_secrets(f"{type(error).__name__}: {getattr(error, 'orig', error)}")


def who(by: str | None) -> str:
    """Who makes a change by hand: the given name, or the user of this machine.

    Raises:
        InvalidInput: Neither is known.
    """
    try:
        return by or getpass.getuser()
    except (OSError, KeyError) as error:
        raise InvalidInput("the user of this machine is not known; give a name with --by") from error


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
