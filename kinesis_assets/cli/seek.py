"""`seek`: set positions."""

from __future__ import annotations

from typing import Any

import click

from kinesis_assets.cli.options import (
    by_option,
    json_option,
    print_rows,
    project_of,
    stream_options,
    user_name,
)
from kinesis_assets.errors import InvalidInput


@click.command()
@stream_options
@click.option("--to", required=True, help="A position, as in --start.")
@click.option("--shard", "shard_ids", multiple=True, help="A shard id. Repeatable.")
@click.option("--all-shards", is_flag=True, help="Set every shard that can have the position.")
@by_option("the positions")
@click.option("--apply", is_flag=True, help="Apply the change. Without this flag, only print the plan.")
@json_option
def seek(
    *,
    to: str,
    shard_ids: tuple[str, ...],
    all_shards: bool,
    by: str | None,
    apply: bool,
    as_json: bool,
    **stream: Any,
) -> None:
    """Set the positions of some shards, or of all.

    Moving forward skips records and records the gap. Moving back deletes the rows after the new position in
    the same commit, and the next run lands them again.
    """
    from kinesis_assets.kinesis.position import Position  # noqa: PLC0415  # each command imports only what it needs
    from kinesis_assets.operations.seek.run import facts_of_moves  # noqa: PLC0415
    from kinesis_assets.operations.seek.run import seek as set_positions  # noqa: PLC0415

    if all_shards == bool(shard_ids):
        raise InvalidInput("give either --shard or --all-shards")
    position = Position.parse(to)
    project = project_of(**stream)
    with project.open_stream() as opened:
        result = set_positions(
            opened.client,
            opened.table,
            to=position,
            shard_ids=None if all_shards else shard_ids,
            by=user_name(by),
            apply=apply,
        )
    rows = [{"stream": project.stream, **facts} for facts in facts_of_moves(result)]
    print_rows(rows, as_json=as_json)
    if not apply:
        click.echo("Nothing was changed. Add --apply to apply the change.", err=True)
