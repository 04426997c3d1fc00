"""`positions`, `plan` and `show`: where shards are, what the next run would do, and a stream's settings."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from kinesis_assets.cli.options import ALL, FAILED, PLANNING, json_option, project_of, stream_options
from kinesis_assets.cli.output import print_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import Predecessor, ShardPosition, StreamPositions


@click.command()
@stream_options()
@json_option
def positions(*, as_json: bool, **stream: Any) -> None:
    """Print the position of each shard.

    Those of deleted streams that had the same name follow.
    """
    project = project_of(**stream)
    with project.open_stream() as opened:
        identity = opened.client.describe().identity
        snapshot = opened.table.snapshot()
        current, amendment = snapshot.positions(identity), snapshot.amendment(identity)
        if current is not None:
            current = snapshot.with_all_archived(current)
    rows = [] if current is None else [{"stream": project.stream, **row} for row in _rows(current, amendment)]
    print_rows(rows, as_json=as_json)
    if not rows:
        click.echo("The table has no positions of the stream.", err=True)


def _rows(current: StreamPositions, amendment: Amendment | None) -> Iterator[dict[str, Any]]:
    for shard_id, shard in current.shards.items():
        yield _position_row(shard_id, shard, amendment)
    for predecessor in current.predecessors:
        yield from _given_up(predecessor)


def _position_row(shard_id: str, shard: ShardPosition, amendment: Amendment | None) -> dict[str, Any]:
    from kinesis_assets.ingest.idle_shards import safe_until
    from kinesis_assets.table.positions.amendments import ranges_to_fill, unfilled

    safe = safe_until(shard, ranges_to_fill(amendment, {shard_id: shard}).get(shard_id, {}).values())
    return {
        "shard": shard_id,
        "parents": list(shard.parents),
        "state": "finished" if shard.finished else "open",
        "position": str(shard.position),
        "last_arrival": shard.last_arrival and shard.last_arrival.isoformat(),
        "tip_time": shard.tip_time and shard.tip_time.isoformat(),
        "safe_until": safe and safe.isoformat(),
        "gaps": [str(gap) for gap in unfilled(amendment, shard_id, shard.gaps)],
        "last_seek": str(shard.seeks[-1]) if shard.seeks else None,
    }


def _given_up(predecessor: Predecessor) -> Iterator[dict[str, Any]]:
    """Yield a row for each shard of a deleted stream that was unfinished or has gaps."""
    created = f"the stream created at {predecessor.identity.created:%Y-%m-%dT%H:%M:%SZ} was deleted"
    for shard_id in sorted({*predecessor.unfinished, *predecessor.gaps}):
        position = predecessor.unfinished.get(shard_id)
        yield {
            "shard": shard_id,
            "parents": [],
            "state": "finished" if position is None else "given_up",
            "position": position and str(position),
            "last_arrival": None,
            "tip_time": None,
            "safe_until": None,
            "gaps": [created, *map(str, predecessor.gaps.get(shard_id, ()))],
            "last_seek": None,
        }


@click.command()
@stream_options(*PLANNING, "follow_for", "commit_interval", "retention_days")
@json_option
def plan(*, as_json: bool, **stream: Any) -> None:
    """Print what the next run would do, and change nothing.

    One row is about the table, one about each shard, and one about each setting that has no effect or an
    effect beyond the run. If the stream is paused, a row says so. The exit code is 0 only if nothing would be
    refused.
    """
    from kinesis_assets.dagster.effective_settings import (
        setting_effects,  # each command imports only what it needs
    )
    from kinesis_assets.ingest.preview import Effect, preview_run
    from kinesis_assets.table.run_files.pause import read_pause

    project = project_of(**stream)
    with project.open_stream() as opened:
        preview, pause = preview_run(opened.client, opened.table, opened.policy), read_pause(opened.table)
        rows = [
            *([] if pause is None else [_plan_row("stream", project.stream, "paused", None, str(pause))]),
            _plan_row("table", opened.table.uri, preview.effect, None, preview.reason),
            *(
                _plan_row("shard", shard.shard_id, shard.effect, shard.position, shard.reason)
                for shard in preview.shards
            ),
            *(
                _plan_row("setting", setting.name, setting.effect, None, setting.reason)
                for setting in setting_effects(opened, preview)
            ),
        ]
    print_rows([{"stream": project.stream, **row} for row in rows], as_json=as_json)
    sys.exit(FAILED if any(row["effect"] == Effect.REFUSED for row in rows) else 0)


def _plan_row(of: str, name: str, effect: str, position: object, reason: str | None) -> dict[str, Any]:
    return {
        "of": of,
        "name": name,
        "effect": str(effect),
        "from": None if position is None else str(position),
        "reason": reason,
    }


@click.command()
@stream_options(*ALL)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of YAML.")
def show(*, as_json: bool, **stream: Any) -> None:
    """Print all settings of a stream as the YAML of its component.

    Defaults are included. Values of environment variables and templates are inserted, and secrets are masked.
    """
    from kinesis_assets.dagster.effective_settings import component_yaml, effective_settings

    component = effective_settings(project_of(**stream, quiet_spark=False))
    click.echo(json.dumps(component) if as_json else component_yaml(component), nl=as_json)
