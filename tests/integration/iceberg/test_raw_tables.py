"""Raw tables beside other engines: each reads what was committed, and Spark's maintenance harms nothing."""

from __future__ import annotations

import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from kinesis_assets import new_rows
from kinesis_assets.errors import PositionConflict, TableRewritten, TableUnsuitable
from kinesis_assets.table.iceberg.raw_table import IcebergSnapshot
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.maintenance.steps import MaintenanceLimits, State
from support.formats import iceberg_of, raw_table_in, settings_of
from support.iceberg.foreign import SparkMaintenance
from support.iceberg.plain_values import plain
from support.iceberg.spark import SparkFailed
from support.iceberg.table_readers import found_by_all
from support.readers import Filter
from support.timing import WRITING

COLUMNS = ("shard_id", "sequence_number", "data")

SOON = MaintenanceLimits(small_files=2, small_files_today=2)


@pytest.fixture
def bench(bench_of_today, sqlite_catalog, tmp_path):
    """A stream of two shards, and a table that others reach too."""
    table = raw_table_in(sqlite_catalog, str(tmp_path / "orders"), WRITING, snapshots_kept=3)
    bench = replace(bench_of_today, table=table)
    bench.create(2)
    return bench


def land(bench, count=10):
    bench.put_many(count)
    assert bench.run().errors == {}


def steps_of(bench, **settings):
    stream = bench.client.describe()
    now = stream.service_time
    steps = maintain(bench.table, stream, machine=lambda: now, limits=SOON, **settings)
    return {step.step: step for step in steps}


# Readers


@pytest.fixture
def assert_all_read(bench, sqlite_catalog, iceberg_spark):
    """Assert that each reader finds some records, and those of a shard with a filter.

    Spark is slow, so it gets the filter only where a test asks for it.
    """

    def assert_all_read(records, *, spark_filters=False):
        table, shard_id = iceberg_of(bench.table), bench.shard_ids[0]
        rows = Counter(tuple(repr(plain(value)) for value in record) for record in records)
        of_shard = Counter({row: count for row, count in rows.items() if row[0] == repr(shard_id)})
        assert rows > of_shard > Counter()
        for condition, expected in ((None, rows), (Filter("shard_id", shard_id), of_shard)):
            spark = iceberg_spark if condition is None or spark_filters else None
            found = found_by_all(sqlite_catalog, table, COLUMNS, condition, spark)
            assert found == dict.fromkeys(found, expected)
            assert found.keys() >= {"pyiceberg", "Polars", "DuckDB"}

    return assert_all_read


def test_all_readers_find_the_rows_after_each_kind_of_commit(bench, assert_all_read, before_commit):
    first, second = bench.shard_ids
    land(bench)
    assert_all_read(bench.acknowledged)

    bench.amend()
    assert_all_read(bench.acknowledged)

    bench.put_many(20)
    behind = bench.plan()
    before_commit(lambda: bench.run([second]))
    assert isinstance(bench.execute(behind).errors[second], PositionConflict)
    assert_all_read(bench.acknowledged)

    lost = bench.acknowledged[4:9]
    numbers = " OR ".join(f"sequence_number = '{number}'" for _, number, _ in lost)
    iceberg_of(bench.table).delete(numbers)
    assert_all_read((Counter(bench.acknowledged) - Counter(lost)).elements())
    bench.replay()
    assert_all_read(bench.acknowledged)

    kept = [number for shard_id, number, _ in bench.acknowledged if shard_id == first][2]
    bench.seek(f"AFTER_SEQUENCE_NUMBER:{kept}", first)
    assert_all_read(
        record for record in bench.acknowledged if record[0] != first or int(record[1]) <= int(kept)
    )
    land(bench)
    assert_all_read(bench.acknowledged)

    assert steps_of(bench)["compact"].state is State.DONE
    assert len(bench.table.snapshot().data_files()) == 1
    assert_all_read(bench.acknowledged)

    land(bench)
    bench.restore(bench.version - 1)
    bench.replay()
    bench.adopt()
    assert_all_read(bench.acknowledged)

    old = Counter(bench.acknowledged)
    for _ in range(3):  # more than two days, and no record waits for longer than the stream keeps it
        bench.clock.advance(timedelta(hours=20).total_seconds())
        assert bench.run().errors == {}
    land(bench, 40)
    assert steps_of(bench, retention_days=1)["expire"].state is State.DONE
    assert_all_read((Counter(bench.acknowledged) - old).elements(), spark_filters=True)


# Maintenance by Spark


@pytest.fixture
def spark(bench, sqlite_catalog, iceberg_spark):
    """Spark's procedures on the table, which has files of two commits."""
    for _ in range(2):
        land(bench)
    return SparkMaintenance(iceberg_spark, sqlite_catalog, iceberg_of(bench.table))


def assert_exactly_once(bench):
    bench.assert_rows_equal_positions()
    bench.assert_exactly_once()


def test_commits_follow_each_procedure_of_spark(bench, spark):
    assert spark.rewrite_data_files() >= 2
    land(bench)
    spark.rewrite_manifests()
    land(bench)
    spark.expire_all_but_current()
    assert len(iceberg_of(bench.table).snapshots()) == 1
    land(bench)
    long_ago = time.time() - timedelta(days=3).total_seconds()
    orphan = Path(bench.table.uri, "arrival_date=2026-02-02", "part-of-nobody.parquet")
    orphan.parent.mkdir()
    orphan.touch()
    for path in Path(bench.table.uri).rglob("*.*"):
        os.utime(path, (long_ago, long_ago))
    spark.remove_orphan_files()
    assert not orphan.exists()
    assert_exactly_once(bench)
    land(bench)
    assert_exactly_once(bench)
    assert steps_of(bench)["compact"].state is State.DONE
    assert_exactly_once(bench)


@pytest.mark.parametrize("procedure", ["rewrite_data_files", "rewrite_manifests", "expire_all_but_current"])
def test_a_procedure_of_spark_between_the_preparation_and_the_commit_harms_nothing(
    bench, spark, before_commit, procedure
):
    before_commit(getattr(spark, procedure))
    land(bench)
    assert_exactly_once(bench)
    land(bench)
    assert_exactly_once(bench)


def test_a_compaction_by_spark_during_commits_harms_nothing(bench, spark):
    """It fails if commits come first too often, or expire the snapshot on which it is based."""
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(spark.rewrite_data_files)
        while not done.done():
            land(bench)
        with suppress(SparkFailed):
            done.result()
    assert_exactly_once(bench)


def test_a_compaction_by_spark_during_one_of_maintenance_harms_nothing(bench, spark, monkeypatch):
    original, left = IcebergSnapshot.replace_files, [spark.rewrite_data_files]

    def after_spark(snapshot, *arguments):
        if left:
            left.pop()()
        return original(snapshot, *arguments)

    monkeypatch.setattr(IcebergSnapshot, "replace_files", after_spark)
    steps_of(bench)
    assert not left
    assert_exactly_once(bench)
    land(bench)
    assert_exactly_once(bench)


def test_a_table_with_files_of_spark_that_delete_rows_is_not_read(bench, spark):
    spark.sql("ALTER TABLE {} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    spark.sql("DELETE FROM {0} WHERE sequence_number = (SELECT min(sequence_number) FROM {0})")
    with pytest.raises(TableUnsuitable, match="files that delete rows"):
        new_rows(bench.table.uri, catalog=settings_of(bench.table)["catalog"])


def test_an_overwrite_by_spark_is_refused_and_deletions_are_not(bench, spark):
    spark.sql("DELETE FROM {0} WHERE sequence_number = (SELECT max(sequence_number) FROM {0})")
    land(bench)
    spark.sql("DELETE FROM {}")
    land(bench)
    spark.sql("INSERT OVERWRITE {0} SELECT * FROM {0}")
    with pytest.raises(TableRewritten, match="overwrite"):
        land(bench)
