"""`run`: ingest the next range of a stream's shards."""

from __future__ import annotations

import sys
from typing import Any

import click

from kinesis_assets.cli.options import (
    FAILED,
    PLANNING,
    SPARK,
    dagster_instance,
    json_option,
    project_of,
    stream_options,
)
from kinesis_assets.cli.output import print_rows, progress_bar
from kinesis_assets.errors import InvalidInput

SHARD_FIELDS = (
    *("stream", "shard", "state", "error_class", "from", "through", "rows", "bytes"),
    *("bad_records", "outside_hash_range", "lag_ms", "time_to_loss_ms", "gaps", "error"),
)
"""The columns of the output. The names are those of the exact values of a shard's event."""


@click.command()
@stream_options(
    *(*PLANNING, *SPARK, "calls_per_second", "stop_timeout", "max_idle_seconds"),
    *("lease_table", "key_prefix"),
)
@click.option("--shard", "shard_ids", multiple=True, help="A shard id. Repeatable. [default: all unfinished]")
@json_option
def run(shard_ids: tuple[str, ...], *, as_json: bool, **stream: Any) -> None:
    """Materialize the next range of a stream's shards with Dagster.

    The exit code is 0 only if every shard is committed or finished.
    """
    from kinesis_assets.kinesis.start_positions import checked_starts
    from kinesis_assets.spark.session import prepare
    from kinesis_assets.table.run_files.pause import refuse_paused

    project, instance = project_of(**stream), dagster_instance()
    with project.open_stream() as opened:
        listing, snapshot, shards = opened.listed_shards(shard_ids)
        unknown = sorted(set(shard_ids) - set(shards))
        if unknown:
            raise InvalidInput(
                f"stream {project.stream} has no shard {', '.join(map(repr, unknown))}; list its shards with "
                "`kinesis-assets plan`"
            )
        refuse_paused(project.stream, opened.table)
        if snapshot is None:
            checked_starts(opened.client, opened.policy.starts, listing)  # raises before anything is written
        prepare(opened.settings.session_config)  # as well
        opened.table.require_writable()  # before Spark is started
    asked = [
        shard_id
        for shard_id, shard in shards.items()
        if (shard_id in shard_ids if shard_ids else not shard.finished)
    ]
    rows: list[dict[str, Any]] = []
    try:
        with progress_bar("reading new records", as_json=as_json):
            for facts in project.materialize(instance, asked):
                rows.append({name: facts.get(name) for name in SHARD_FIELDS})  # noqa: PERF401  # so that they are printed after an error too
    finally:
        print_rows(rows, as_json=as_json)
    sys.exit(0 if all(row["error"] is None for row in rows) else FAILED)
