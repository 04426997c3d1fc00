"""The options that commands share, and what they select: a stream, its settings, a Dagster instance."""

from __future__ import annotations

import getpass
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click
import yaml
from pydantic import TypeAdapter, ValidationError

from kinesis_assets.dagster.settings.settings_base import reason_of, without_parser
from kinesis_assets.dagster.settings.spark_settings import SparkSettings
from kinesis_assets.dagster.settings.stream_settings import ConnectionSettings, StreamSettings
from kinesis_assets.dagster.settings.table_format_settings import RawTableFormat
from kinesis_assets.errors import InvalidInput, without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    import dagster as dg

    from kinesis_assets.dagster.stream_project import StreamProject


FAILED = 1
"""The exit code of a command whose input was valid, but that failed."""

_CHECK_HOME = "check DAGSTER_HOME and the dagster.yaml in it"

_QUIET_SPARK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


class SecondsRange(click.FloatRange):
    """A range of numbers, which excludes NaN: that compares with no bound."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{number} is not a number of seconds.", param, ctx)
        return number


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


by_option = click.option("--by", help="Name recorded with the change. [default: the user of this machine]")

ALL = tuple(name for name in StreamSettings.model_fields if name not in {"stream", "table"})

CONNECTION, SPARK = tuple(ConnectionSettings.model_fields), tuple(SparkSettings.model_fields)

_OF_KINESIS = ("endpoint_url", "sdk_parser")
"""The settings of the connection without effect in other services of AWS."""

FORMAT = tuple(RawTableFormat.model_fields)
"""The settings with which a table is opened."""

POSITIONS = (
    "TRIM_HORIZON, LATEST, AT_TIMESTAMP:time, AT_SEQUENCE_NUMBER:number or AFTER_SEQUENCE_NUMBER:number"
)
"""How the help of an option describes its positions."""

PLANNING = (
    *("start", "max_records", "max_bytes", "max_seconds"),
    *("max_run_records", "max_run_bytes", "max_run_seconds"),
    *("max_bad_records", "on_data_loss", "on_recreated"),
)
"""The settings of `ReadPolicy`, by which a run is planned."""

_FLAGS = {
    "region_name": "--region",
    "endpoint_url": "--endpoint-url",
    "start": "--start",
    "on_data_loss": "--on-data-loss",
    "on_recreated": "--on-recreated",
    "retention_days": "--retention-days",
}
"""The settings that have an option of their own. The others are given with `--set`."""


def stream_options(
    *names: str, table: bool = True, kinesis: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the options of a command that select a stream and its table, and change what the command reads.

    Args:
        names: The settings that the command reads besides those of the connection and the table.
        table: Whether the command opens the table.
        kinesis: Whether the command calls Kinesis.
    """
    connection = {*CONNECTION} - (set() if kinesis else {*_OF_KINESIS})
    settings = [name for name in ALL if name in {*connection, *(FORMAT if table else ()), *names}]
    condition = "Requires --table." if table else "For a stream that no YAML defines."

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        command = click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            callback=lambda _context, _option, pairs: parse_settings(pairs, settings),
            help="Another setting of the YAML, with a value in YAML: "
            f"{', '.join(name for name in settings if name not in _FLAGS)}. Repeatable. {condition}",
        )(command)
        for name in reversed([name for name in _FLAGS if name in settings]):
            command = _setting_option(name, condition)(command)
        if table:
            command = click.option(
                "--table", help="Path or URI of the table, for a stream that no YAML defines."
            )(command)
        return stream_option(command)

    return decorate


def _setting_option(name: str, condition: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option for a setting, with its description and choices."""
    field = StreamSettings.model_fields[name]
    choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else None
    plain = click.INT if int in get_args(field.annotation) else click.STRING
    type_ = click.Choice(choices) if choices else plain
    return click.option(_FLAGS[name], name, type=type_, help=f"{field.description} {condition}")


_NO_TABLE = "none"
"""The table in the definitions of a stream whose table the command does not open."""


def project_of(
    stream: str, *, settings: Mapping[str, Any], quiet_spark: bool = True, **options: Any
) -> StreamProject:
    """Return the stream that the options of `stream_options` select.

    Args:
        quiet_spark: Whether a session for a stream that no YAML defines prints errors only.

    Raises:
        InvalidInput: Neither the options nor the Dagster project of the current directory define the stream,
            or the options exclude each other.
    """
    from kinesis_assets.dagster.stream_project import StreamProject

    given = {name: value for name, value in options.items() if value is not None}
    if both := [*given.keys() & settings.keys()]:
        raise InvalidInput(f"{_FLAGS[both[0]]} and --set {both[0]}: give one of them")
    opens_table = "table" in options
    if "table" in given or (not opens_table and (given or settings)):
        # A Spark Connect server has its own settings and warns of others.
        quiet = _QUIET_SPARK if quiet_spark and not os.environ.get("SPARK_REMOTE") else {}
        spark_config = {**quiet, **settings.get("spark_config", {})}
        fields = {"table": _NO_TABLE, **given, **settings, "spark_config": spark_config}
        return StreamProject.from_settings(stream, **fields)
    if given or settings:
        named = [*(_FLAGS[name] for name in given), *(["--set"] if settings else [])]
        raise InvalidInput(f"{', '.join(named)}: only with --table; for a stream with a YAML, set it there")
    way_out = "the stream's table with --table" if opens_table else "the stream's region with --region"
    return StreamProject.of_folder(stream, Path.cwd(), f", or give {way_out}")


def dagster_instance() -> dg.DagsterInstance:
    """Return the instance of DAGSTER_HOME, or else an ephemeral one: the table holds all state.

    The end of the command closes it.
    """
    import dagster as dg

    context = click.get_current_context()
    if not os.environ.get("DAGSTER_HOME"):
        return context.with_resource(dg.DagsterInstance.ephemeral())
    try:
        instance = context.with_resource(dg.DagsterInstance.get())
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


def parse_settings(pairs: Iterable[str], names: Collection[str] = ALL) -> dict[str, Any]:
    """Parse settings like the fields of a `defs.yaml`.

    Args:
        pairs: A field's name, `=`, and its value as YAML.
        names: The settings that the command reads.

    Raises:
        InvalidInput: A pair is malformed, unknown, not read, given twice, or has an invalid value.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            raise InvalidInput(f"--set {pair[:80]!r}: give name=value, as in --set max_records=1000")
        if name not in names:
            reason = "has no effect here" if name in StreamSettings.model_fields else "unknown setting"
            raise InvalidInput(f"--set {name[:80]}: {reason}; this command reads {', '.join(names)}")
        if name in found:
            raise InvalidInput(f"--set {name}: given twice; give it once")
        found[name] = _value(name, text)
    return found


def _value(name: str, text: str) -> Any:
    """Parse a value as YAML, or take the text itself if only that is valid."""
    try:
        parsed = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):  # an invalid date is a ValueError
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
