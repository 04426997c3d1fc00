"""`doctor`: verify a stream's table."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kinesis_assets.cli.options import (
    FAILED,
    SPARK,
    dagster_instance,
    json_option,
    project_of,
    stream_options,
)
from kinesis_assets.cli.output import print_rows, progress_bar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import dagster as dg

    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.dagster.stream_project import StreamProject
    from kinesis_assets.operations.doctor.examine import AuditEvents
    from kinesis_assets.operations.doctor.finding import Finding
    from kinesis_assets.operations.doctor.row_scan import Scan


@click.command()
@stream_options("key_prefix", *SPARK)
@click.option("--rows", is_flag=True, help="Also read the keys of all rows, with a Spark job.")
@click.option("--dry-run", is_flag=True, help="Do not add missing events, and write no probe.")
@json_option
def doctor(*, rows: bool, dry_run: bool, as_json: bool, **stream: Any) -> None:
    """Verify a table against its log, stream and Dagster's events.

    Missing events are added. In a bucket, a probe is written and deleted, to check that the store supports
    conditional puts. Nothing else is changed. The exit code is 0 only if no problem is found.
    """
    from kinesis_assets.operations.doctor.examine import examine
    from kinesis_assets.operations.doctor.finding import Level, facts_of_finding

    project = project_of(**stream)
    # Without DAGSTER_HOME there is no instance whose events could be missing.
    instance = dagster_instance() if os.environ.get("DAGSTER_HOME") else None
    with project.open_stream() as opened:
        audit_events: AuditEvents | None = None
        if instance is not None:
            from kinesis_assets.dagster.event_audit import EventAudit  # only with an instance

            audit_events = EventAudit(
                instance,
                project.names,
                opened.table,
                add_events=not dry_run,
                totals=partial(_totals, opened, instance),
            )
        examination = examine(
            opened.client,
            opened.table,
            audit_events=audit_events,
            read_rows=partial(_read_rows, opened) if rows else None,
            probes_store=not dry_run,
        )
        findings: list[Finding] = []
        try:
            with progress_bar("verifying", as_json=as_json):
                findings.extend(examination)
                findings.extend(_of_catalog(project, opened))
        finally:  # what was found until then is shown also if the rest fails
            print_rows([facts_of_finding(project.stream, finding) for finding in findings], as_json=as_json)
    sys.exit(FAILED if any(finding.level is Level.PROBLEM for finding in findings) else 0)


def _of_catalog(project: StreamProject, opened: OpenStream) -> Iterator[Finding]:
    """Compare the entries in the Data Catalog with the tables, if any table has one."""
    from kinesis_assets.dagster.catalog_entries import entry_findings, registered_tables
    from kinesis_assets.operations.doctor.finding import or_ok

    tables = registered_tables(opened, project.assets)
    if tables:
        yield from or_ok(
            "catalog", entry_findings(tables), "all tables with the setting catalog are registered"
        )


def _totals(opened: OpenStream, instance: dg.DagsterInstance) -> dg.AssetMaterialization:
    """Return the event of the stream as a whole as it is now."""
    from kinesis_assets.dagster.sensor.sensor_cursor import sensor_memory  # only with an instance
    from kinesis_assets.dagster.sensor.tick_reports import stream_event

    now = time.time()
    failing = sensor_memory(instance, opened.names).failing_at(now)
    return stream_event(opened, opened.listed_shards(), failing, now)


def _read_rows(opened: OpenStream, files: Sequence[tuple[str, int]]) -> Scan:
    from kinesis_assets.operations.doctor.row_scan import scan
    from kinesis_assets.spark.session import wrap_spark_errors

    spark = opened.start_spark()
    with wrap_spark_errors(f"stream {opened.name}"):
        return scan(spark, opened.table.folder, opened.name, files)
