"""The check that each record is in the table once, by a scan of the keys of all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.dagster.checks.result import CheckResult, counted, worst
from kinesis_assets.errors import TableMissing
from kinesis_assets.operations.doctor.row_scan import scan
from kinesis_assets.spark.session import wrap_spark_errors

if TYPE_CHECKING:
    from kinesis_assets.dagster.settings.stream_check_settings import NoDuplicatesCheck
    from kinesis_assets.dagster.stream import OpenStream


def check_no_duplicates(check: NoDuplicatesCheck, opened: OpenStream) -> CheckResult:
    """Read the keys of all rows in a Spark job, and check that each is there once.

    Args:
        check: The check.
        opened: The stream.

    Raises:
        LandingFailed: The Spark session cannot be started, or the Spark job failed.
        TableError: The table cannot be read.
    """
    try:
        files = [(file.path, file.size) for file in opened.table.snapshot().active_files()]
    except TableMissing:
        files = []
    with wrap_spark_errors(f"stream {opened.name}"):
        found = scan(opened.start_spark(), opened.table.folder, opened.name, files) if files else None
    duplicates = {} if found is None else dict(found.duplicates)
    rows = 0 if found is None else sum(each.rows for each in found.counted.values())
    total = sum(duplicates.values())
    if total:
        description = (
            f"{counted(total, 'record')} in {counted(len(duplicates), 'shard')} are in the table more than "
            "once. Examine the table with `kinesis-assets doctor --rows`: another program may have written "
            "to it"
        )
    else:
        description = f"each of {counted(rows, 'row')} is there once"
    most = sorted(duplicates.items(), key=lambda item: (-item[1], item[0]))
    shards = [{"shard": shard_id, "records": str(number)} for shard_id, number in most]
    return CheckResult(
        "no_duplicates",
        not total,
        check.severity,
        description,
        {"rows": rows, "duplicated records": total, **worst(shards)},
    )
