"""`maintain`: compact, vacuum and prune the tables of a stream."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from kinesis_assets.cli.options import (
    by_option,
    dagster_instance,
    json_option,
    project_of,
    stream_options,
    user_name,
)
from kinesis_assets.cli.output import print_rows, progress_bar
from kinesis_assets.errors import InvalidInput, TableMissing, TableUnsuitable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.dagster.stream_project import StreamProject
    from kinesis_assets.derive.derived_table import DerivedTable


@click.command()
@stream_options("retention_days", "prune_after", "key_prefix")
@click.option(
    "--lower-floor",
    "floor",
    metavar="DATE",
    help="Only lower the first arrival date that the table keeps, for a later replay. It records --by.",
)
@click.option(
    "--set-property",
    "properties",
    metavar="NAME=VALUE",
    multiple=True,
    help="Only set a table property, such as delta.logRetentionDuration='interval 7 days'. Repeatable.",
)
@by_option
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@json_option
def maintain(
    *,
    floor: str | None,
    properties: tuple[str, ...],
    by: str | None,
    dry_run: bool,
    as_json: bool,
    **stream: Any,
) -> None:
    """Compact, vacuum and prune the tables of a stream.

    This executes its Dagster job, while runs may be in progress. The tables are the raw table and the tables
    of the project that are derived from it; with --table that table alone, which may also be a derived one. A
    step that conflicts with another commit is left to the next maintenance. This is not a failure. Nothing is
    deleted if this machine's clock and the service's differ by more than an hour.
    """
    if floor is not None or properties:
        from kinesis_assets.table.maintenance.set_properties import parse_property

        day, given = _date(floor), dict(map(parse_property, properties))
        _by_hand(project_of(**stream), day, given, by, dry_run=dry_run, as_json=as_json)
        return
    project = project_of(**stream)
    rows: list[dict[str, Any]] = []
    try:
        with progress_bar("maintaining the tables", as_json=as_json):
            for row in _steps(project, given=stream["table"] is not None, dry_run=dry_run):
                rows.append(row)  # noqa: PERF402  # so that they are printed after an error too
    finally:
        print_rows(rows, as_json=as_json)
    if not rows:
        click.echo("Only a checkpoint of the log would be written.", err=True)


def _steps(project: StreamProject, *, given: bool, dry_run: bool) -> Iterator[dict[str, Any]]:
    """Perform the due steps of the stream's tables, or of the derived table that was given instead."""
    from kinesis_assets.dagster.jobs.maintenance import derived_steps, run_maintenance, step_row

    with project.open_stream() as opened:
        try:
            opened.table.snapshot()  # raises if the table does not exist
        except TableUnsuitable:
            table = _derived(opened) if given else None
            if table is None:
                raise
            for step in derived_steps(opened, table, dry_run=dry_run):
                yield step_row(project.stream, None, asdict(step))
            return
        if given and opened.settings.retention_days is not None:
            click.echo(
                "With --table, the tables that are derived from it are unknown, so rows that they have not "
                "consumed are deleted too. The maintenance job of their code location keeps these rows.",
                err=True,
            )
    yield from run_maintenance(project.definitions, project.names, dagster_instance(), dry_run=dry_run)


def _derived(opened: OpenStream) -> DerivedTable | None:
    """Return the given table if it is a derived one; None otherwise.

    Raises:
        InvalidInput: It is, and has an option that is only for raw tables.
    """
    from kinesis_assets.derive.derived_table import DerivedTable

    format_ = opened.settings.derived_in(opened.names.raw_key.path[-1], opened.aws_settings)
    table = DerivedTable(opened.table.uri, role=opened.role, format=format_)
    try:
        table.snapshot()
    except (TableMissing, TableUnsuitable):
        return None
    if opened.settings.retention_days is not None:
        raise InvalidInput(
            f"--retention-days: table {opened.table.uri} is derived, and the maintenance job of the "
            "stream deletes its old rows by the table's own settings; leave the option out"
        )
    return table


def _by_hand(
    project: StreamProject,
    floor: date | None,
    properties: Mapping[str, str],
    by: str | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Make the changes that the maintenance job never makes."""
    from kinesis_assets.dagster.jobs.maintenance import step_row
    from kinesis_assets.table.maintenance.retention import lower_floor
    from kinesis_assets.table.maintenance.set_properties import set_properties

    steps = []
    with project.open_stream() as opened:
        table = opened.table
        table.snapshot()
        if properties:
            steps.append(set_properties(table, properties, dry_run=dry_run))
        if floor is not None:
            identity, now = opened.client.describe().identity, datetime.now(UTC)
            steps.append(lower_floor(table, identity, floor, now, by=user_name(by), dry_run=dry_run))
            days = opened.settings.retention_days
            if days is not None and floor < now.date() - timedelta(days=days):
                note = f"retention_days is {days}, so the next maintenance raises the floor again"
                click.echo(f"{note}: raise retention_days first.", err=True)
    key = project.names.raw_key
    print_rows([step_row(project.stream, key, asdict(step)) for step in steps], as_json=as_json)


def _date(text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"invalid --lower-floor {text[:80]!r}: give a date such as 2026-01-31") from None
