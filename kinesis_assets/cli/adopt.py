"""`adopt`: accept the rows of a table as they are."""

from __future__ import annotations

from typing import Any

import click

from kinesis_assets.cli.options import json_option, of_stream, print_rows, project_of, who


@click.command()
@of_stream
@click.option("--by", help="Name recorded with the commit; the user of this machine by default.")
@click.option("--apply", is_flag=True, help="Apply the change. Without this flag, only print the plan.")
@json_option
def adopt(*, by: str | None, apply: bool, as_json: bool, **stream: Any) -> None:
    """Accept the rows of a table as they are, so that runs continue from there.

    If the table has rows and no positions, such as a copy, compute the positions from the rows. If it was
    restored or overwritten, accept that. No row is changed.
    """
    from kinesis_assets.adopt.run import adopt as adopt_rows  # noqa: PLC0415  # each command loads what it needs
    from kinesis_assets.adopt.run import facts_of_adoption  # noqa: PLC0415

    project = project_of(**stream)
    with project.manager() as manager:
        result = adopt_rows(manager.client(), manager.positioned_table(), by=who(by), apply=apply)
    rows = [{"stream": project.stream, **facts} for facts in facts_of_adoption(result)]
    print_rows(rows, as_json=as_json)
    if not apply:
        click.echo("Nothing was changed. Add --apply to do it.", err=True)
