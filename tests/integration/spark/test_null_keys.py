"""Spark reads rows without a partition key."""

from __future__ import annotations

from deltalake import DeltaTable

from support.null_keys import ROWS, make_old, mix


def test_spark_reads_old_and_new_files_of_a_table(table, monkeypatch, spark):
    make_old(table, monkeypatch)
    mix(table)
    read = spark.read.parquet(*DeltaTable(table.uri).file_uris())
    found = read.select("shard_id", "sequence_number", "partition_key").collect()
    assert sorted(map(tuple, found), key=str) == sorted(ROWS, key=str)
