"""Tables in a table bucket of Amazon S3 Tables, of which `TableBucket` is a stub."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from kinesis_assets.derive.derivation import Derivation, Upsert
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.errors import DataFileInvalid, TableMissing, TableUnsuitable
from kinesis_assets.operations.doctor.examine import file_findings
from kinesis_assets.operations.doctor.finding import Level
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.maintenance.steps import MaintenanceLimits, State
from support.derived import DerivedBench, maintain_derived, order, orders
from support.formats import derived_in, derived_rows, raw_table_in, source_format
from support.iceberg.aws_catalogs import in_table_bucket
from support.iceberg.fault_proxy import CONFLICT_AFTER_SUCCESS, ERROR_AFTER_SUCCESS, LOST_RESPONSE
from support.iceberg.plain_table import SCHEMA
from support.single_task import land_as_in_spark
from support.timing import WRITING

SOON = MaintenanceLimits(small_files=2, small_files_today=2)


@pytest.fixture
def catalog(table_bucket):
    return table_bucket.catalog


@pytest.fixture
def bench(bench_of_today, catalog, lake):
    """A stream of two shards, and a table in the bucket."""
    bench = replace(bench_of_today, table=raw_table_in(catalog, f"{lake}/orders", WRITING, snapshots_kept=3))
    bench.create(2)
    return bench


def land(bench, count=10):
    bench.put_many(count)
    assert bench.run().errors == {}


def assert_exactly_once(bench):
    assert Counter(bench.stored) == Counter(bench.acknowledged)


def test_rows_are_in_the_table_bucket_and_positions_in_the_folder(bench, catalog, table_bucket, lake):
    land(bench)
    bench.table = raw_table_in(catalog, bench.table.uri, WRITING)
    land(bench)
    assert_exactly_once(bench)
    assert {key.split("/")[1] for key in table_bucket.keys(lake)} == {"_kinesis"}
    location = table_bucket.table(catalog).location()
    assert {key.split("/")[0].partition("=")[0] for key in table_bucket.keys(location)} == {
        "arrival_date",
        "metadata",
    }
    assert table_bucket.store.refused == []


def test_maintenance_by_the_service_after_each_commit_loses_no_row_and_no_position(
    bench, catalog, table_bucket
):
    for _ in range(3):
        land(bench)
        assert table_bucket.maintain(catalog)
        assert_exactly_once(bench)
    shard_id = bench.shard_ids[0]
    kept = [number for shard, number, _ in bench.acknowledged if shard == shard_id][2]
    bench.seek(f"AFTER_SEQUENCE_NUMBER:{kept}", shard_id)
    table_bucket.maintain(catalog)
    assert bench.run().errors == {}
    table_bucket.maintain(catalog)
    bench.replay()
    assert_exactly_once(bench)


def test_files_that_the_service_deleted_before_their_commit_are_not_committed(bench, catalog, table_bucket):
    """As it deletes those of a run that was paused for days."""
    land(bench)

    def pausing(*arguments):
        landing = land_as_in_spark(*arguments)
        assert any(key.endswith(".parquet") for key in table_bucket.maintain(catalog))
        return landing

    bench.put_many(10)
    with pytest.raises(DataFileInvalid, match="nothing was committed"):
        bench.run(land=pausing)
    assert bench.run().errors == {}
    assert_exactly_once(bench)


@pytest.mark.parametrize("fault", [LOST_RESPONSE, CONFLICT_AFTER_SUCCESS, ERROR_AFTER_SUCCESS])
def test_a_commit_of_which_the_response_is_wrong_adds_its_rows_once(bench, table_bucket, fault):
    land(bench)
    table_bucket.faults.append(fault)
    land(bench)
    assert not table_bucket.faults
    assert_exactly_once(bench)


def test_maintenance_compacts_the_rows_and_leaves_their_files_to_the_service(bench, table_bucket):
    for _ in range(3):
        land(bench)
    stream = bench.client.describe()
    steps = {
        step.step: step.state
        for step in maintain(bench.table, stream, machine=lambda: stream.service_time, limits=SOON)
    }
    assert steps["compact"] is State.DONE
    assert "vacuum" not in steps
    assert len(bench.table.snapshot().data_files()) == 1
    assert table_bucket.store.refused == []
    assert_exactly_once(bench)


def test_doctor_says_that_files_cannot_be_listed(bench):
    land(bench)
    (finding,) = file_findings(bench.table, bench.table.snapshot(), None)
    assert (finding.level, "S3 Tables lists no files" in finding.sentence) == (Level.INFO, True)


def test_a_table_is_opened_only_with_the_folder_of_its_positions(bench, catalog, lake):
    land(bench)
    other = raw_table_in(catalog, f"{lake}/other", WRITING)
    with pytest.raises(TableUnsuitable, match=f"has its positions in {lake}/orders"):
        other.create_if_missing()


def test_a_table_of_another_program_is_refused(bench, catalog, table_bucket):
    properties = {**in_table_bucket(table_bucket.url).properties}
    replace(catalog, properties=properties).load().create_table((catalog.namespace, "orders"), SCHEMA)
    with pytest.raises(TableUnsuitable, match="or was created by another program"):
        bench.run()


def test_a_table_that_was_dropped_from_the_bucket_is_not_created_again(bench, catalog, table_bucket):
    land(bench)
    table = table_bucket.table(catalog)
    table.catalog.drop_table(table.name())
    with pytest.raises(TableMissing):
        bench.table.snapshot()
    with pytest.raises(TableUnsuitable, match="renamed or dropped"):
        bench.run()


@pytest.fixture
def newest(bench, catalog, lake, table_bucket, spark_in_lake):
    """The newest order of each id in the stream of the bench, in the same bucket."""
    spark_in_lake.sparkContext.environment["AWS_ENDPOINT_URL_S3"] = table_bucket.store.url
    derivation = Derivation(
        bench.table.uri, orders, Upsert(("id",), ("amount",)), source_format=source_format(bench.table)
    )
    table = DerivedTable(f"{lake}/newest", WRITING, format=derived_in(catalog, "newest"))
    return DerivedBench(spark_in_lake, table, derivation)


@pytest.mark.thorough
def test_a_derived_table_in_the_bucket_survives_maintenance_by_the_service(
    bench, catalog, table_bucket, lake, newest
):
    for items in ([order(1, 1.0), order(2, 1.0)], [order(1, 2.0), order(3, 1.0)], [order(2, 5.0)]):
        bench.put(*items)
        bench.run()
        newest.run()
        for name in ("orders", "newest"):
            table_bucket.maintain(catalog, name)
    assert derived_rows(newest.table).sort_by("id").select(["id", "amount"]).to_pydict() == {
        "id": [1, 2, 3],
        "amount": [2.0, 5.0, 1.0],
    }
    maintain_derived(newest)
    assert {key.split("/")[1] for key in table_bucket.keys(lake)} == {"_kinesis"}
    assert table_bucket.store.refused == []
