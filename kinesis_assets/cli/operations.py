"""`catch-up`, `seek`, `replay`, `adopt`, `rebuild` and `redrive`: what an operator does beside runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kinesis_assets.cli.options import (
    FAILED,
    POSITIONS,
    SPARK,
    apply_option,
    by_option,
    dagster_instance,
    json_option,
    project_of,
    stream_option,
    stream_options,
    user_name,
)
from kinesis_assets.cli.output import print_plan, print_rows, progress_bar
from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


CATCH_UP_FIELDS = ("shard", "from", "to", "gap", "rows", "gaps_filled", "error_class", "error")
"""The columns of the output."""


@click.command("catch-up")
@stream_options("calls_per_second", "key_prefix", *SPARK)
@click.option("--shard", "shard_ids", multiple=True, help="A shard id. Repeatable. [default: all shards]")
@by_option
@apply_option
@json_option
def catch_up(
    *, shard_ids: tuple[str, ...], by: str | None, apply: bool, as_json: bool, **stream: Any
) -> None:
    """Continue with the newest records, and add those in between.

    Runs continue meanwhile. One commit moves the positions, and records the skipped range of each shard as a
    gap. The next runs read new records, while this command adds those of the gaps in steps of ten minutes. No
    row is added twice, and a gap is cleared in the commit of its last rows. If the command is interrupted,
    run it again: it continues where the last step ended. The exit code is 0 only if all gaps are filled.
    """
    from kinesis_assets.dagster.stream_project import run_catch_up
    from kinesis_assets.operations.catch_up import jump
    from kinesis_assets.operations.seek.run import facts_of_moves

    project, name = project_of(**stream), user_name(by)
    if apply:
        with progress_bar("adding skipped records", as_json=as_json):
            facts = run_catch_up(project, dagster_instance(), shard_ids=shard_ids, by=name)
    else:
        with project.open_stream() as opened:
            facts = facts_of_moves(jump(opened.client, opened.table, shard_ids, by=name, apply=False))
    rows = _rows(facts)
    print_plan(project.stream, rows, applied=apply, as_json=as_json)
    sys.exit(FAILED if any(row["error"] is not None for row in rows) else 0)


def _rows(facts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each shard: where it was moved, and what the steps have added of its gaps."""
    rows: dict[str, dict[str, Any]] = {}
    for fact in facts:
        row = rows.setdefault(fact["shard"], dict.fromkeys(CATCH_UP_FIELDS) | {"shard": fact["shard"]})
        if "direction" in fact:
            row |= {name: fact.get(name) for name in ("from", "to", "gap")}
            continue
        for name in ("rows", "gaps_filled"):
            row[name] = (row[name] or 0) + (fact.get(name) or 0)
        if fact.get("error") is not None:
            row |= {name: fact.get(name) for name in ("error_class", "error")}
    return list(rows.values())


@click.command()
@stream_options()
@click.option("--to", required=True, help=f"The new position: {POSITIONS}.")
@click.option("--shard", "shard_ids", multiple=True, help="A shard id. Repeatable.")
@click.option("--all-shards", is_flag=True, help="Set every shard that can have the position.")
@by_option
@apply_option
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
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.operations.seek.run import facts_of_moves
    from kinesis_assets.operations.seek.run import seek as set_positions

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
    print_plan(project.stream, facts_of_moves(result), applied=apply, as_json=as_json)


REPLAY_FIELDS = ("stream", "shard", "state", "error_class", "from", "through", "rows", "bytes", "error")
"""The columns of the output. The names are those of the exact values of a shard's event."""


@click.command()
@stream_options("calls_per_second", "key_prefix", *SPARK)
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
    from kinesis_assets.dagster.stream_project import run_replay
    from kinesis_assets.operations.replay.plan import ReplayWindow

    ReplayWindow.of(start, end)  # raises before Spark is started
    project = project_of(**stream)
    with progress_bar("reading again", as_json=as_json):
        facts = run_replay(project, dagster_instance(), start=start, end=end or "", shard_ids=shard_ids)
    rows = [{name: of_shard.get(name) for name in REPLAY_FIELDS} for of_shard in facts]
    print_rows(rows, as_json=as_json)
    sys.exit(0 if all(row["error"] is None for row in rows) else FAILED)


@click.command()
@stream_options()
@by_option
@apply_option
@json_option
def adopt(*, by: str | None, apply: bool, as_json: bool, **stream: Any) -> None:
    """Accept the current rows of a table, so that runs can continue.

    For a table with rows but no positions, such as a copy, this computes the positions from the rows. For a
    table that was restored or overwritten, it accepts the change. No row is changed.
    """
    from kinesis_assets.operations.adopt import adopt as adopt_rows
    from kinesis_assets.operations.adopt import facts_of_adoption

    project = project_of(**stream)
    with project.open_stream() as opened:
        result = adopt_rows(opened.client, opened.table, by=user_name(by), apply=apply)
    print_plan(project.stream, facts_of_adoption(result, applied=apply), applied=apply, as_json=as_json)


@click.command()
@stream_option
@click.option("--asset", required=True, help="Asset key of a derived table of the stream.")
@click.option(
    "--take-over",
    is_flag=True,
    help="Only make the asset the owner of the table, because it was renamed. No row is changed.",
)
@by_option
@apply_option
@json_option
def rebuild(*, stream: str, asset: str, take_over: bool, by: str | None, apply: bool, as_json: bool) -> None:
    """Start a derived table again.

    Its rows are deleted, and its next run derives all rows of its source again. This also accepts a changed
    key or by, another owner, a restored table, and a missing position. What was derived from rows that the
    source no longer has is lost: lost_rows is their number, if it is known. The tables in below consume this
    one, so they must start again too.
    """
    from kinesis_assets.dagster.jobs.derived_jobs import rebuild_asset
    from kinesis_assets.dagster.stream_project import StreamProject

    project = StreamProject.of_folder(stream, Path.cwd())
    with project.open_stream() as opened:
        facts = rebuild_asset(
            opened, project.assets, asset, by=user_name(by), take_over=take_over, apply=apply
        )
    print_plan(project.stream, [facts], applied=apply, as_json=as_json)


@click.command()
@stream_option
@click.option("--asset", required=True, help="Asset key of a typed table of the stream.")
@by_option
@apply_option
@json_option
def redrive(*, stream: str, asset: str, by: str | None, apply: bool, as_json: bool) -> None:
    """Decode the bad records of a table again.

    Do this after its schema or an expression was corrected. Those that can be decoded now become rows of the
    table, each exactly once and by the same rules as new records. The others stay as they are, with their new
    reason. Without --apply, the records are decoded too, and the result is only reported: how many could be
    decoded, and why the others cannot.
    """
    from kinesis_assets.dagster.jobs.derived_jobs import redrive_asset
    from kinesis_assets.dagster.stream_project import StreamProject

    project = StreamProject.of_folder(stream, Path.cwd())
    with project.open_stream() as opened, progress_bar("decoding bad records", as_json=as_json):
        facts, _ = redrive_asset(opened, project.assets, asset, by=user_name(by), apply=apply)
    print_plan(project.stream, [facts], applied=apply, as_json=as_json)
