"""`rebuild`: start a derived table again."""

from __future__ import annotations

from pathlib import Path

import click

from kinesis_assets.cli.options import by_option, json_option, print_rows, stream_option, user_name


@click.command()
@stream_option
@click.option("--asset", required=True, help="Asset key of a derived table of the stream.")
@click.option(
    "--take-over",
    is_flag=True,
    help="Only make the asset the owner of the table, because it was renamed. No row is changed.",
)
@by_option("the commit")
@click.option("--apply", is_flag=True, help="Apply the change. Without this flag, only print the plan.")
@json_option
def rebuild(*, stream: str, asset: str, take_over: bool, by: str | None, apply: bool, as_json: bool) -> None:
    """Delete the rows of a derived table, so that its next run derives all rows of its source again.

    This also accepts a changed key or by, another owner, a restored table, and a missing position. What was
    derived from rows that the source no longer has is lost: lost_rows is their number, if it is known. The
    tables in below consume this one, so they must start again too.
    """
    from kinesis_assets.dagster.in_process import StreamProject  # noqa: PLC0415  # each command imports only what it needs
    from kinesis_assets.dagster.jobs.rebuild import rebuild_asset  # noqa: PLC0415

    project = StreamProject.of_folder(stream, Path.cwd())
    assets = project.definitions.get_repository_def().assets_defs_by_key
    with project.open_stream() as opened:
        facts = rebuild_asset(opened, assets, asset, by=user_name(by), take_over=take_over, apply=apply)
    print_rows([{"stream": project.stream, **facts}], as_json=as_json)
    if not apply:
        click.echo("Nothing was changed. Add --apply to apply the change.", err=True)
