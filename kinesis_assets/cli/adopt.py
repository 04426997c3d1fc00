"""`adopt`: accept the current rows of a table."""

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


@click.command()
@stream_options
@by_option("the commit")
@click.option("--apply", is_flag=True, help="Apply the change. Without this flag, only print the plan.")
@json_option
def adopt(*, by: str | None, apply: bool, as_json: bool, **stream: Any) -> None:
    """Accept the current rows of a table, so that runs can continue.

    For a table with rows but no positions, such as a copy, this computes the positions from the rows. For a
    table that was restored or overwritten, it accepts the change. No row is changed.
    """
    from kinesis_assets.operations.adopt import adopt as adopt_rows  # noqa: PLC0415  # each command imports only what it needs
    from kinesis_assets.operations.adopt import facts_of_adoption  # noqa: PLC0415

    project = project_of(**stream)
    with project.open_stream() as opened:
        result = adopt_rows(opened.client, opened.table, by=user_name(by), apply=apply)
    rows = [{"stream": project.stream, **facts} for facts in facts_of_adoption(result)]
    print_rows(rows, as_json=as_json)
    if not apply:
        click.echo("Nothing was changed. Add --apply to apply the change.", err=True)
