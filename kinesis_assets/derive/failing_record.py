"""Finds a record for which an expression of a derived table fails, after Spark's job has failed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.derive.data_files import RECORD_ID
from kinesis_assets.derive.derivation import CheckedRows, Upsert
from kinesis_assets.derive.upsert import all_present
from kinesis_assets.errors import LandingFailed
from kinesis_assets.spark.session import reason_of_value, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kinesis_assets.derive.derivation import Derivation
    from kinesis_assets.derive.new_rows import NewRows

_HALVINGS = 24
"""Maximum number of times that the records of a file are halved. As many jobs read the file."""


def raise_for_record(
    error: Exception,
    spark: SparkSession,
    *,
    table: str,
    rows: NewRows,
    derivation: Derivation,
) -> None:
    """Raise an error that names a record if an error of Spark is that of an expression of a derivation.

    Args:
        derivation: How the table is computed. It is no roll-up, which does not treat each row on its own.

    Raises:
        LandingFailed: It is.
    """
    reason = reason_of_value(error)
    if reason is None:
        return
    place = _failing_record(spark, rows, derivation)
    found = f"the record {place}" if place else "a row; apply the function to parts of the rows to find it"
    raise LandingFailed(
        f"table {table}: an expression fails for {found}. Nothing was committed. The reason is {reason}. "
        "Use one that returns null instead, such as try_cast, try_to_timestamp, try_divide or get"
    ) from error


def _failing_record(spark: SparkSession, rows: NewRows, derivation: Derivation) -> str | None:
    """Return the shard and the sequence number of a record for which a derivation fails.

    First the files of a step are halved, then the records of one file, so that all jobs together read little
    more than twice the step and some times a file.
    """
    if not {*RECORD_ID} <= {field["name"] for field in rows.source.schema["fields"]}:
        return None
    files = list(rows.files)
    while len(files) > 1:
        whole, files = files, files[: len(files) // 2]
        if not _fails(replace(rows, files=files).read(spark), derivation):
            files = whole[len(files) :]
    suspects = replace(rows, files=files).read(spark)
    part = F.xxhash64(*RECORD_ID)
    for bit in range(_HALVINGS):
        places = suspects.select(*RECORD_ID).distinct().limit(2).collect()
        if len(places) < 2:  # noqa: PLR2004  # one is left
            return ": ".join(map(str, places[0])) if places and _fails(suspects, derivation) else None
        in_half = F.shiftrightunsigned(part, bit).bitwiseAND(F.lit(1)) == 0
        half = suspects.where(in_half)
        suspects = half if _fails(half, derivation) else suspects.where(~in_half)
    return None


def _fails(source_rows: DataFrame, derivation: Derivation) -> bool:
    """Return whether a job that computes the rows of some rows of the source, and what they delete, fails."""
    try:
        rows = derivation.transform(source_rows)
        rows = rows.rows if isinstance(rows, CheckedRows) else rows
        if isinstance(derivation.mode, Upsert) and derivation.mode.delete_where is not None:
            deletes = F.expr(derivation.mode.delete_where)
            rows = rows.withColumn("__deletes", F.when(all_present(derivation.mode.key), deletes))
        rows.write.format("noop").mode("overwrite").save()
    except spark_errors():
        return True
    return False
