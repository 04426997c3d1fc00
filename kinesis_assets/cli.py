"""The command line: `kinesis-assets`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kinesis_assets.errors import InvalidInput, KinesisAssetsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import dagster as dg

    from kinesis_assets.materialize import StreamProject

_FAILED = 1
_BAD_INPUT = 2
_PORT = click.IntRange(0, 65535)
_QUIET_SPARK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
_SHARD_FIELDS = (
    "stream",
    "shard",
    "state",
    "from",
    "through",
    "rows",
    "bytes",
    "bad_records",
    "outside_hash_range",
    "lag_ms",
    "time_to_loss_ms",
    "gaps",
    "error",
)


def main() -> None:
    """Run the command line. Errors are one line; exit 2 for bad input, 1 for a failed run."""
    try:
        commands(standalone_mode=False)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(_BAD_INPUT)
    except KinesisAssetsError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(_BAD_INPUT if isinstance(error, InvalidInput) else _FAILED)


@click.group()
@click.version_option(package_name="kinesis-assets")
def commands() -> None:
    """Kinesis streams as Dagster assets."""


def _of_stream(command: Callable[..., None]) -> Callable[..., None]:
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
        click.option("--stream", required=True, help="The stream's name."),
    ):
        command = option(command)
    return command


@commands.command()
def demo() -> None:
    """Show the whole way of a record on the embedded stream, and prove that each arrives exactly once."""
    from kinesis_assets.demo.show import run_demo  # noqa: PLC0415  # each command loads what it needs

    sys.exit(0 if run_demo() else _FAILED)


@commands.command()
@click.option("--port", type=_PORT, default=3000, show_default=True, help="Of the UI, on loopback.")
def dev(port: int) -> None:
    """Open the Dagster UI on the embedded stream, with orders coming in. Run it in the project's folder."""
    from kinesis_assets.demo.dev import run_dev  # noqa: PLC0415

    project = Path.cwd()
    if not (project / "workspace.yaml").is_file():
        raise InvalidInput(f"{project} has no workspace.yaml; run this in the project's folder")
    sys.exit(run_dev(project, port))


@commands.command()
@click.option("--port", type=_PORT, default=4567, show_default=True, help="On loopback; 0 for a free one.")
def local(port: int) -> None:
    """Serve the embedded stream: a small Kinesis endpoint in memory."""
    from kinesis_assets.local import serve  # noqa: PLC0415

    try:
        serve(port)
    except OSError as error:
        raise InvalidInput(f"port {port}: {error.strerror}") from error


@commands.command()
@_of_stream
@click.option("--shard", "shard_ids", multiple=True, help="A shard id; all that are not finished by default.")
@click.option("--json", "as_json", is_flag=True, help="A JSON line per shard.")
def run(shard_ids: tuple[str, ...], *, as_json: bool, **stream: Any) -> None:
    """Materialize the next range of a stream's shards through Dagster.

    Exit 0 only if every shard is committed or finished.
    """
    project = _project(**stream)
    with project.manager() as manager:
        standing = manager.standing_shards()
    unknown = sorted(set(shard_ids) - set(standing))
    if unknown:
        raise InvalidInput(f"stream {project.stream} has no shard {', '.join(map(repr, unknown))}")
    asked = [
        shard_id
        for shard_id, shard in standing.items()
        if (shard_id in shard_ids if shard_ids else not shard.finished)
    ]
    rows: list[dict[str, Any]] = []
    try:
        for facts in project.materialize(_instance(), asked):
            rows.append({name: facts.get(name) for name in _SHARD_FIELDS})  # noqa: PERF401  # kept on an error
    finally:
        _print(rows, as_json=as_json, leave_out="stream")
    sys.exit(0 if all(row["error"] is None for row in rows) else _FAILED)


@commands.command()
@_of_stream
@click.option("--json", "as_json", is_flag=True, help="A JSON line per shard.")
def positions(*, as_json: bool, **stream: Any) -> None:
    """Print how far each shard is in the table."""
    project = _project(**stream)
    with project.manager() as manager:
        identity = manager.client().describe().identity
        standing = manager.positioned_table().snapshot().positions(identity)
    shards = {} if standing is None else standing.shards
    rows = [
        {
            "stream": project.stream,
            "shard": shard_id,
            "parents": list(shard.parents),
            "state": "finished" if shard.finished else "open",
            "position": str(shard.position),
            "last_arrival": shard.last_arrival and shard.last_arrival.isoformat(),
            "tip_time": shard.tip_time and shard.tip_time.isoformat(),
            "safe_until": None if shard.finished or not shard.safe_until else shard.safe_until.isoformat(),
            "gaps": [str(gap) for gap in shard.gaps],
        }
        for shard_id, shard in shards.items()
    ]
    _print(rows, as_json=as_json, leave_out="stream")


def _project(stream: str, table: str | None, **fields: str | None) -> StreamProject:
    from kinesis_assets.materialize import StreamProject  # noqa: PLC0415

    given = {name: value for name, value in fields.items() if value is not None}
    if table is not None:
        return StreamProject.unnamed(stream, table=table, spark_config=_QUIET_SPARK, **given)
    if given:
        options = (f"--{name.removesuffix('_name').replace('_', '-')}" for name in given)
        raise InvalidInput(f"{', '.join(options)}: only with --table; a stream with a YAML has it there")
    return StreamProject.deployed(stream)


def _instance() -> dg.DagsterInstance:
    """The instance of DAGSTER_HOME, or one that is thrown away: the table holds all the state there is."""
    import dagster as dg  # noqa: PLC0415
    import yaml  # noqa: PLC0415

    if not os.environ.get("DAGSTER_HOME"):
        return dg.DagsterInstance.ephemeral()
    try:
        return dg.DagsterInstance.get()
    except (dg.DagsterError, yaml.YAMLError) as error:
        raise InvalidInput(" ".join(str(error).split())) from error


def _print(rows: Sequence[dict[str, Any]], *, as_json: bool, leave_out: str) -> None:
    if as_json:
        for row in rows:
            click.echo(json.dumps(row))
        return
    table = [{name: _cell(value) for name, value in row.items() if name != leave_out} for row in rows]
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
