"""What the commands share: the options of a stream, `--set`, the Dagster instance, and printing rows."""

from __future__ import annotations

import getpass
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click
import yaml
from pydantic import TypeAdapter, ValidationError

from kinesis_assets.dagster.settings.settings_base import reason_of, without_parser
from kinesis_assets.dagster.settings.stream_settings import StreamSettings
from kinesis_assets.errors import InvalidInput
from kinesis_assets.errors.redaction import without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import dagster as dg

    from kinesis_assets.dagster.in_process import StreamProject


FAILED = 1
"""The exit code of a command whose input was valid, but that failed."""

_CHECK_HOME = "check DAGSTER_HOME and the dagster.yaml in it"

_QUIET_SPARK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")

apply_option = click.option(
    "--apply", is_flag=True, help="Apply the change. Without this flag, only print the plan."
)

stream_option = click.option(
    "--stream",
    required=True,
    help=f"{StreamSettings.model_fields['stream'].description} Of several streams of that name in the "
    "project, the asset key, such as eu/orders.",
)


def by_option(recorded_with: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option for the operator's name, see `user_name`.

    Args:
        recorded_with: The place where the name is recorded, such as "the positions".
    """
    return click.option(
        "--by", help=f"Name recorded with {recorded_with}. [default: the user of this machine]"
    )


def stream_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that select a stream to a command."""
    for option in (
        setting_option("--region", "region_name"),
        setting_option("--endpoint-url", "endpoint_url"),
        setting_option("--on-recreated", "on_recreated"),
        setting_option("--on-data-loss", "on_data_loss"),
        setting_option("--start", "start"),
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="Any other setting of the YAML. The value is YAML. Requires --table. Repeatable.",
        ),
        click.option("--table", help="Path or URI of the table, for a stream that no YAML defines."),
        stream_option,
    ):
        command = option(command)
    return command


def setting_option(flag: str, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option for a setting, with its description and choices."""
    field = StreamSettings.model_fields[name]
    choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else None
    plain = click.INT if int in get_args(field.annotation) else click.STRING
    type_ = click.Choice(choices) if choices else plain
    return click.option(flag, name, type=type_, help=f"{field.description} Requires --table.")


def project_of(
    stream: str, table: str | None, *, settings: Sequence[str] = (), **fields: str | None
) -> StreamProject:
    """Return the stream that the options of `stream_options` select.

    Raises:
        InvalidInput: No table is given, and the Dagster project of the current directory does not define the
            stream; or the options exclude each other.
    """
    from kinesis_assets.dagster.in_process import StreamProject  # noqa: PLC0415

    given: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    if table is not None:
        also = parse_settings(settings)
        if both := [*given.keys() & also.keys()]:
            raise InvalidInput(f"{_option(both[0])} and --set {both[0]}: give one of them")
        given |= also
        # A Spark Connect server has its own settings and warns of others.
        spark_config = {} if os.environ.get("SPARK_REMOTE") else _QUIET_SPARK
        given["spark_config"] = spark_config | given.get("spark_config", {})
        return StreamProject.from_settings(stream, table=table, **given)
    if given or settings:
        options = [*map(_option, given), *(["--set"] if settings else [])]
        raise InvalidInput(f"{', '.join(options)}: only with --table; for a stream with a YAML, set it there")
    return StreamProject.of_folder(stream, Path.cwd(), ", or give the stream's table with --table")


def _option(name: str) -> str:
    return f"--{name.removesuffix('_name').replace('_', '-')}"


def dagster_instance() -> dg.DagsterInstance:
    """Return the instance of DAGSTER_HOME, or else an ephemeral one: the table holds all state."""
    import dagster as dg  # noqa: PLC0415
    import yaml  # noqa: PLC0415

    if not os.environ.get("DAGSTER_HOME"):
        return dg.DagsterInstance.ephemeral()
    try:
        instance = dg.DagsterInstance.get()
        instance.get_runs_count()  # a database may open but be unusable
    except Exception as error:
        if isinstance(error, (dg.DagsterError, yaml.YAMLError)):
            raise InvalidInput(f"{str(error).strip().rstrip('.')}; {_CHECK_HOME}") from error
        message = str(error) if isinstance(error, OSError) else storage_error(error)
        if message is None:
            raise
        raise InvalidInput(
            f"DAGSTER_HOME is {os.environ['DAGSTER_HOME']}: {message}; {_CHECK_HOME}"
        ) from error
    return instance


def storage_error(error: Exception) -> str | None:
    """Return the message of an error that a Dagster instance's storage raised; None for any other error."""
    # Dagster does not wrap the errors of its database driver, and no command opens another database.
    if not type(error).__module__.startswith(("sqlalchemy.", "alembic.")):
        return None
    return without_secrets(f"{type(error).__name__}: {getattr(error, 'orig', error)}")


def user_name(by: str | None) -> str:
    """Return the name recorded with a manual change: the given one, or the user of this machine.

    Raises:
        InvalidInput: No name is given, and the user is unknown.
    """
    try:
        return by or getpass.getuser()
    except (OSError, KeyError) as error:
        raise InvalidInput("the user of this machine is unknown; give a name with --by") from error


def print_rows(rows: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    """Print rows with the same columns, as JSON lines, or as a table without their common stream."""
    if as_json:
        for row in rows:
            click.echo(json.dumps(row))
        return
    table = [{name: _cell(value) for name, value in row.items() if name != "stream"} for row in rows]
    if table:
        _print_table([list(table[0]), *(row.values() for row in table)])


def print_plan(rows: Sequence[dict[str, Any]], *, applied: bool, as_json: bool) -> None:
    """Print the rows of a change, and how to apply it if it was only planned."""
    print_rows(rows, as_json=as_json)
    if not applied:
        click.echo("Nothing was changed. Add --apply to apply the change.", err=True)


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


_OPTIONS = ("stream", "table")
"""Settings that have their own options."""


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Parse settings like the fields of a `defs.yaml`.

    Args:
        pairs: A field's name, `=`, and its value as YAML.

    Raises:
        InvalidInput: A pair is malformed, unknown, given twice, or has an invalid value.
    """
    names = [name for name in StreamSettings.model_fields if name not in _OPTIONS]
    found: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            raise InvalidInput(f"--set {pair[:80]!r}: give name=value, as in --set max_records=1000")
        if name not in names:
            raise InvalidInput(f"--set {name[:80]}: unknown setting; the settings are {', '.join(names)}")
        if name in found:
            raise InvalidInput(f"--set {name}: given twice; give it once")
        found[name] = _value(name, text)
    return found


def _value(name: str, text: str) -> Any:
    """Parse a value as YAML, or take the text itself if only that is valid."""
    try:
        parsed = yaml.safe_load(text)
    except yaml.YAMLError:
        parsed = text
    adapter: TypeAdapter[Any] = TypeAdapter(
        without_parser(StreamSettings.model_fields[name]).rebuild_annotation()
    )
    try:
        return adapter.validate_python(parsed)
    except ValidationError as error:
        reason = reason_of(error, name)
    try:
        return adapter.validate_python(text)
    except ValidationError:
        raise InvalidInput(f"--set: {reason}") from None
