"""`seek`: positions by hand."""

from __future__ import annotations

from typing import Any

import click

from kinesis_assets.cli.options import json_option, of_stream, print_rows, project_of, who
from kinesis_assets.errors import InvalidInput


@click.command()
@of_stream
@click.option("--to", required=True, help="A position, as for --start.")
@click.option("--shard", "shard_ids", multiple=True, help="A shard id; as often as there are shards to set.")
@click.option("--all-shards", is_flag=True, help="Every shard that can go there.")
@click.option("--by", help="Who does it, kept with the positions; the user of this machine by default.")
@click.option("--apply", is_flag=True, help="Do it. Without, it is only told what would be done.")
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
    """Set the position of one shard or of all by hand.

    Forward, what lies between is skipped, and recorded as a gap. Back, the rows after the new position are
    taken out in the same commit, and the next run lands them again.
    """
    from kinesis_assets.kinesis.position import Position  # noqa: PLC0415  # each command loads what it needs
    from kinesis_assets.seek.run import facts_of_moves  # noqa: PLC0415
    from kinesis_assets.seek.run import seek as set_positions  # noqa: PLC0415

    if all_shards == bool(shard_ids):
        raise InvalidInput("name shards with --shard, or give --all-shards")
    position = Position.parse(to)
    project = project_of(**stream)
    with project.manager() as manager:
        result = set_positions(
            manager.client(),
            manager.positioned_table(),
            to=position,
            shard_ids=None if all_shards else shard_ids,
            by=who(by),
            apply=apply,
        )
    rows = [{"stream": project.stream, **facts} for facts in facts_of_moves(result)]
    print_rows(rows, as_json=as_json)
    if not apply:
        click.echo("Nothing was changed. Add --apply to do it.", err=True)
