"""Spark and a catalog of Iceberg's Java library accept the partitions of derived tables."""

from __future__ import annotations

import pytest

from support.formats import derived_in, iceberg_of
from support.iceberg.foreign import SparkMaintenance
from support.iceberg.partitioned import ROWS, Partitioned


@pytest.mark.thorough
def test_spark_finds_rows_by_partition_columns_and_may_write_the_files_again(
    rest_catalog, iceberg_spark, tmp_path
):
    by = ("bucket(4, name)", "truncate(10, number)", "bucket(4, price)")
    table = Partitioned(tmp_path, *by, format=derived_in(rest_catalog, "partitioned"))
    table.append(*ROWS)
    changed = {**ROWS[4], "name": "moved"}
    table.append(changed, replacing=changed["number"])
    rows = [*ROWS[:4], changed, ROWS[5]]
    spark = SparkMaintenance(iceberg_spark, rest_catalog, iceberg_of(table.table))
    for condition in table.filters(rows):
        found = spark.sql("SELECT number FROM {} WHERE " + condition.sql.replace('"', "`"))  # noqa: S608
        expected = sorted(each["number"] for each in rows if condition.accepts(each))
        assert sorted(each["number"] for each in found) == expected, condition
    assert spark.rewrite_data_files() == len(rows)
    table.append(ROWS[4], replacing=changed["number"])
    table.check_filters("pyiceberg", ROWS)
