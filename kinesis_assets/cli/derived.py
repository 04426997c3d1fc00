"""`rebuild` and `redrive`: start a derived table again, or decode its bad records again."""

from __future__ import annotations

from pathlib import Path

import click

from kinesis_assets.cli.options import apply_option, by_option, json_option, stream_option, user_name
from kinesis_assets.cli.output import print_plan, progress_bar


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
    from kinesis_assets.dagster.in_process import StreamProject  # noqa: PLC0415  # each command imports only what it needs
    from kinesis_assets.dagster.jobs.rebuild import rebuild_asset  # noqa: PLC0415

    project = StreamProject.of_folder(stream, Path.cwd())
    assets = project.definitions.get_repository_def().assets_defs_by_key
    with project.open_stream() as opened:
        facts = rebuild_asset(opened, assets, asset, by=user_name(by), take_over=take_over, apply=apply)
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
    from kinesis_assets.dagster.in_process import StreamProject  # noqa: PLC0415  # each command imports only what it needs
    from kinesis_assets.dagster.jobs.redrive import redrive_asset  # noqa: PLC0415

    project = StreamProject.of_folder(stream, Path.cwd())
    assets = project.definitions.get_repository_def().assets_defs_by_key
    with project.open_stream() as opened, progress_bar("decoding bad records", as_json=as_json):
        facts, _ = redrive_asset(opened, assets, asset, by=user_name(by), apply=apply)
    print_plan(project.stream, [facts], applied=apply, as_json=as_json)
