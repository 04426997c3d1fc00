"""`plan`: what the next run would do with the stored positions."""

from __future__ import annotations

import sys
from typing import Any

import click

from kinesis_assets.cli.options import FAILED, json_option, print_rows, project_of, stream_options


@click.command()
@stream_options
@json_option
def plan(*, as_json: bool, **stream: Any) -> None:
    """Print what the next run would do with the configuration, and change nothing.

    One row is about the table, one about each shard, and one about each setting that has no effect or an
    effect beyond the run. If the stream is paused, a row says so. The exit code is 0 only if nothing would be
    refused.
    """
    from kinesis_assets.dagster.setting_effects import setting_effects  # noqa: PLC0415  # each command imports only what it needs
    from kinesis_assets.ingest.preview import Effect, preview_run  # noqa: PLC0415
    from kinesis_assets.table.run_files.pause import read_pause  # noqa: PLC0415

    project = project_of(**stream)
    with project.open_stream() as opened:
        preview, pause = preview_run(opened.client, opened.table, opened.policy), read_pause(opened.table)
        rows = [
            *([] if pause is None else [_row("stream", project.stream, "paused", None, str(pause))]),
            _row("table", opened.table.uri, preview.effect, None, preview.reason),
            *(
                _row("shard", shard.shard_id, shard.effect, shard.position, shard.reason)
                for shard in preview.shards
            ),
            *(
                _row("setting", setting.name, setting.effect, None, setting.reason)
                for setting in setting_effects(opened, preview)
            ),
        ]
    print_rows([{"stream": project.stream, **row} for row in rows], as_json=as_json)
    sys.exit(FAILED if any(row["effect"] == Effect.REFUSED for row in rows) else 0)


def _row(of: str, name: str, effect: str, position: object, reason: str | None) -> dict[str, Any]:
    return {
        "of": of,
        "name": name,
        "effect": str(effect),
        "from": None if position is None else str(position),
        "reason": reason,
    }
