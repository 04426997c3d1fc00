"""`catch-up`: continue with the newest records, and add the skipped ones."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kinesis_assets.cli.options import (
    FAILED,
    by_option,
    dagster_instance,
    json_option,
    print_rows,
    project_of,
    stream_options,
    user_name,
)
from kinesis_assets.cli.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CATCH_UP_FIELDS = ("stream", "shard", "from", "to", "gap", "rows", "gaps_filled", "error_class", "error")
"""The columns of the output."""


@click.command("catch-up")
@stream_options
@click.option("--shard", "shard_ids", multiple=True, help="A shard id. Repeatable. [default: all shards]")
@by_option("the positions")
@click.option("--apply", is_flag=True, help="Apply the change. Without this flag, only print the plan.")
@json_option
def catch_up(
    *, shard_ids: tuple[str, ...], by: str | None, apply: bool, as_json: bool, **stream: Any
) -> None:
    """Continue with the newest records now, and add the records in between while runs continue.

    One commit moves the positions, and records the skipped range of each shard as a gap. The next runs read
    new records, while this command adds those of the gaps in steps of ten minutes. No row is added twice, and
    a gap is cleared in the commit of its last rows. If the command is interrupted, run it again: it continues
    where the last step ended. The exit code is 0 only if all gaps are filled.
    """
    from kinesis_assets.dagster.in_process import run_catch_up  # noqa: PLC0415
    from kinesis_assets.operations.catch_up import jump  # noqa: PLC0415  # each command imports only what it needs
    from kinesis_assets.operations.seek.run import facts_of_moves  # noqa: PLC0415

    project, name = project_of(**stream), user_name(by)
    if apply:
        with progress_bar("adding skipped records", as_json=as_json):
            facts = run_catch_up(project, dagster_instance(), shard_ids=shard_ids, by=name)
    else:
        with project.open_stream() as opened:
            facts = facts_of_moves(jump(opened.client, opened.table, shard_ids, by=name, apply=False))
    rows = _rows(project.stream, facts)
    print_rows(rows, as_json=as_json)
    if not apply:
        click.echo("Nothing was changed. Add --apply to apply the change.", err=True)
    sys.exit(FAILED if any(row["error"] is not None for row in rows) else 0)


def _rows(stream: str, facts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each shard: where it was moved, and what the steps have added of its gaps."""
    rows: dict[str, dict[str, Any]] = {}
    for fact in facts:
        row = rows.setdefault(
            fact["shard"], dict.fromkeys(CATCH_UP_FIELDS) | {"stream": stream, "shard": fact["shard"]}
        )
        if "direction" in fact:
            row |= {name: fact.get(name) for name in ("from", "to", "gap")}
            continue
        for name in ("rows", "gaps_filled"):
            row[name] = (row[name] or 0) + (fact.get(name) or 0)
        if fact.get("error") is not None:
            row |= {name: fact.get(name) for name in ("error_class", "error")}
    return list(rows.values())
