"""`maintain`: keep a stream's table quick and small."""

from __future__ import annotations

from typing import Any

import click

from kinesis_assets.cli.stream import dagster_instance, json_option, of_stream, print_rows, project_of


@click.command()
@of_stream
@click.option(
    "--retention-days",
    type=click.IntRange(min=1),
    help="Take rows of older days out, with --table; none by default.",
)
@click.option("--dry-run", is_flag=True, help="Only tell what would be done.")
@json_option
def maintain(*, dry_run: bool, as_json: bool, **stream: Any) -> None:
    """Compact, vacuum and prune a stream's table, through its Dagster job. Safe beside runs.

    What another commit was in the way of is left for the next maintenance, and is no failure.
    """
    from kinesis_assets.jobs.maintain import run_maintenance  # noqa: PLC0415  # each command loads what it needs

    project = project_of(**stream)
    with project.manager() as manager:
        manager.positioned_table().snapshot()  # a table that is not there is no table to maintain
    rows: list[dict[str, Any]] = []
    try:
        for row in run_maintenance(project.definitions, project.stream, dagster_instance(), dry_run=dry_run):
            rows.append(row)  # noqa: PERF402  # kept on an error
    finally:
        print_rows(rows, as_json=as_json)
