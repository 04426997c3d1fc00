"""`replay`: what the table lacks behind the positions."""

from __future__ import annotations

import sys
from typing import Any

import click

from kinesis_assets.cli.options import (
    FAILED,
    dagster_instance,
    json_option,
    of_stream,
    print_rows,
    project_of,
)

REPLAY_FIELDS = ("stream", "shard", "state", "error_class", "from", "through", "rows", "bytes", "error")
"""What is printed of each shard: names as in its event's metadata."""


@click.command()
@of_stream
@click.option(
    "--from",
    "start",
    required=True,
    help="From here on, inclusive: a time as 2026-01-31T12:00:00Z, a sequence number, or TRIM_HORIZON.",
)
@click.option(
    "--to",
    "end",
    help="Up to here: a time, exclusive, or a sequence number, inclusive; the committed position by default.",
)
@click.option(
    "--shard", "shard_ids", multiple=True, help="A shard id, one with a sequence number; all by default."
)
@json_option
def replay(start: str, end: str | None, shard_ids: tuple[str, ...], *, as_json: bool, **stream: Any) -> None:
    """Read a range again, and fill in what the table lacks of it.

    No position moves, and nothing is added twice. Exit 0 only if all of the range could be read.
    """
    from kinesis_assets.dagster.jobs.replay import run_replay  # noqa: PLC0415  # each command loads what it needs
    from kinesis_assets.replay.window import Span  # noqa: PLC0415

    Span.of(start, end)  # refused before a session is started
    project = project_of(**stream)
    facts = run_replay(project, dagster_instance(), start=start, end=end or "", shard_ids=shard_ids)
    rows = [{name: of_shard.get(name) for name in REPLAY_FIELDS} for of_shard in facts]
    print_rows(rows, as_json=as_json)
    sys.exit(0 if all(row["error"] is None for row in rows) else FAILED)
