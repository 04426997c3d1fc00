"""The checks that scan the keys of all rows: each record, or each key of a derived table, is there once."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from kinesis_assets.dagster.checks.results import CheckResult, counted, worst
from kinesis_assets.derive.commit_entry import REBUILD_COMMAND
from kinesis_assets.errors import TableMissing
from kinesis_assets.operations.doctor.row_scan import scan
from kinesis_assets.spark.session import wrap_spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kinesis_assets.dagster.derived_tables import CheckedTable
    from kinesis_assets.dagster.settings.check_settings import DerivedNoDuplicatesCheck, NoDuplicatesCheck
    from kinesis_assets.dagster.stream import OpenStream


def check_no_duplicates(check: NoDuplicatesCheck, opened: OpenStream) -> CheckResult:
    """Read the keys of all rows in a Spark job, and check that each is there once."""
    try:
        files = [(file.path, file.size) for file in opened.table.snapshot().data_files()]
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
    facts = {"rows": rows, "duplicated records": total, **worst(shards)}
    return CheckResult("no_duplicates", not total, check.severity, description, facts)


_ROWS = "__rows"


def check_no_duplicate_keys(
    check: DerivedNoDuplicatesCheck, table: CheckedTable, spark: SparkSession
) -> CheckResult:
    """Read the keys of all rows in a Spark job, and check that each is there once.

    Rows in which a column of the key is null have no key.
    """
    rows, duplicated = _count(table, spark)
    if duplicated:
        description = (
            f"{counted(duplicated, 'key')} {'is' if duplicated == 1 else 'are'} in the table more than once. "
            f"Another program may have written to it: stop that, and run {REBUILD_COMMAND}, which "
            "derives all rows again"
        )
    else:
        description = f"each key of {counted(rows, 'row')} is there once"
    metadata = {"rows": rows, "duplicated keys": duplicated}
    return CheckResult("no_duplicates", not duplicated, check.severity, description, metadata)


def _count(table: CheckedTable, spark: SparkSession) -> tuple[int, int]:
    """Return the number of rows with a key, and of keys with several rows."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  # only an execution needs Spark

    from kinesis_assets.derive.derived_source import open_source  # noqa: PLC0415
    from kinesis_assets.derive.read import read, shuffle_tasks  # noqa: PLC0415  # as above

    try:
        snapshot = open_source(table.uri, table.role, table.format).snapshot
    except TableMissing:
        return 0, 0
    files = snapshot.data_files()
    if not files:
        return 0, 0
    key = [F.col(f"`{name}`") for name in table.consumption.unique]
    has_key = reduce(lambda condition, column: condition & column.isNotNull(), key, F.lit(True))
    with wrap_spark_errors(f"table {table.uri}"):
        keys = read(spark, snapshot, files, columns=table.consumption.unique).where(has_key)
        tasks = shuffle_tasks(spark, sum(file.size for file in files))
        of_keys = keys.repartition(tasks, *key).groupBy(*key).agg(F.count(F.lit(1)).alias(_ROWS))
        number = F.col(_ROWS)
        found = of_keys.agg(F.sum(number), F.count(F.when(number > 1, number))).collect()
    return found[0][0] or 0, found[0][1]
