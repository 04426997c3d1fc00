"""`replay`: read a range again."""

from __future__ import annotations

import sys
from typing import Any

import click

from kinesis_assets.cli.options import (
    FAILED,
    dagster_instance,
    json_option,
    print_rows,
    project_of,
    stream_options,
)
from kinesis_assets.cli.progress import progress_bar

REPLAY_FIELDS = ("stream", "shard", "state", "error_class", "from", "through", "rows", "bytes", "error")
"""The columns of the output. The names are those of the exact values of a shard's event."""


@click.command()
@stream_options
@click.option(
    "--from",
    "start",
    required=True,
    help="Start, inclusive: a time such as 2026-01-31T12:00:00Z, a sequence number, or TRIM_HORIZON.",
)
@click.option(
    "--to",
    "end",
    help="End: a time, exclusive, or a sequence number, inclusive. [default: the committed position]",
)
@click.option(
    "--shard",
    "shard_ids",
    multiple=True,
    help="A shard id; exactly one with a sequence number. Repeatable. [default: all shards]",
)
@json_option
def replay(start: str, end: str | None, shard_ids: tuple[str, ...], *, as_json: bool, **stream: Any) -> None:
    """Read a range again, and add the rows that the table lacks.

    No position is moved, and no row is added twice. The exit code is 0 only if the whole range could be read.
    """
    from kinesis_assets.dagster.in_process import run_replay  # noqa: PLC0415  # each command imports only what it needs
    from kinesis_assets.operations.replay.outcome import ReplayWindow  # noqa: PLC0415

    ReplayWindow.of(start, end)  # raises before Spark is started
    project = project_of(**stream)
    with progress_bar("reading again", as_json=as_json):
        facts = run_replay(project, dagster_instance(), start=start, end=end or "", shard_ids=shard_ids)
    rows = [{name: of_shard.get(name) for name in REPLAY_FIELDS} for of_shard in facts]
    print_rows(rows, as_json=as_json)
    sys.exit(0 if all(row["error"] is None for row in rows) else FAILED)
