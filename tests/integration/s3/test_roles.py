"""The files and the log of a table in a bucket are accessed as an assumed role, with fresh credentials."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle
from pyspark.serializers import CloudPickleSerializer

from benchmarks.servers.bucket import BUCKET, bucket
from benchmarks.servers.slow_bucket import proxy_process
from kinesis_assets.dagster.table_rows import new_rows, read_table
from kinesis_assets.derive.derivation import Derivation, Rollup, Upsert
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.run import derive
from kinesis_assets.errors import TableMissing
from kinesis_assets.ingest.task import landing_task
from kinesis_assets.operations.doctor.row_scan import scan
from kinesis_assets.operations.replay.task import fill
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.raw_table import PositionedTable
from support.plain_derived import PlainDerived, steps_of
from support.single_task import land_as_in_spark
from support.timing import WRITING
from support.token_service import BASE_SECRET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from kinesis_assets.ingest.manifest import Landing
    from kinesis_assets.ingest.task import LandingJob
    from kinesis_assets.kinesis.reading.range import Allowance, ShardRange
    from kinesis_assets.kinesis.role import AssumedRole
    from support.bench import Bench
    from support.token_service import TokenService

    Signers = Callable[[], set[str]]

NO_SPARK: Any = None
RAW = f"s3://{BUCKET}/raw"


@pytest.fixture
def signers(role: AssumedRole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Signers]:
    """Points the environment to a bucket; returns the access keys of its requests since the last call."""
    del role  # before the environment of the bucket
    log = tmp_path / "signers"
    with bucket(), proxy_process(os.environ["AWS_ENDPOINT_URL_S3"], signers=log) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

        def signers() -> set[str]:
            found = set(log.read_text().split())
            log.write_text("")
            return found

        yield signers


def test_every_request_for_a_table_is_signed_with_fresh_credentials_of_the_role(
    bench: Bench, role: AssumedRole, sts: TokenService, signers: Signers
) -> None:
    bench.table = PositionedTable(RAW, WRITING, role)
    (shard,) = bench.create()
    sent: list[bytes] = []
    issued = 0

    def assert_fresh() -> None:
        """Check who has signed: the role, with credentials that were issued since the last check."""
        nonlocal issued
        keys = signers()
        assert keys
        assert keys <= set(list(sts.expirations)[issued:])
        issued = len(sts.expirations)

    def land(job: LandingJob, ranges: Sequence[ShardRange], allowance: Allowance) -> Landing:
        assert_fresh()  # the driver until here
        sent.append(cloudpickle.dumps(landing_task(job, [(ranges, allowance)])))
        landing = land_as_in_spark(pickle.loads(pickle.dumps(job)), ranges, allowance)  # noqa: S301  # our own
        assert_fresh()  # the task
        return landing

    for _ in range(2):
        bench.put_many(3)
        bench.run(land=land)
        assert_fresh()  # the commit
    bench.replay()
    bench.seek("LATEST", shard)
    list(maintain(bench.table, bench.client.describe(), machine=lambda: bench.now))
    assert_fresh()
    assert len(sent) == 2
    assert secrets_in(sent, sts) == []


def test_every_request_for_a_derived_table_and_its_source_is_signed_as_the_role(
    role: AssumedRole, sts: TokenService, signers: Signers
) -> None:
    derived = PlainDerived(f"s3://{BUCKET}/orders", role=role)
    derived.append((1, 1, "a"), (2, 2, "b"))
    derived.upsert((1, 3, "a"))
    steps_of(derived)
    assert open_source(derived.table.uri, role).end.commit is not None
    with pytest.raises(TableMissing):
        next(derive(NO_SPARK, derived.table, Derivation(f"s3://{BUCKET}/missing", lambda rows: rows)))
    assert signers() <= sts.expirations.keys()


def test_new_rows_are_found_as_the_role(role: AssumedRole, sts: TokenService, signers: Signers) -> None:
    derived = PlainDerived(f"s3://{BUCKET}/orders", role=role)
    derived.append((1, 1, "a"))
    signers()
    assert len(new_rows(derived.table.uri, role=role).files) == 1
    keys = signers()
    assert keys
    assert keys <= sts.expirations.keys()


@pytest.fixture
def spark_with_role(spark: SparkSession, signers: Signers, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """The session of this process, whose workers have the environment of the role and the bucket."""
    del signers  # it has set the environment
    of_workers = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    monkeypatch.setattr(spark.sparkContext, "environment", spark.sparkContext.environment | of_workers)
    return spark


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What Spark serializes for its tasks, in order."""
    sent: list[bytes] = []
    pickled = CloudPickleSerializer.dumps

    def dumps(serializer: CloudPickleSerializer, task: Any) -> bytes:
        sent.append(pickled(serializer, task))
        return sent[-1]

    monkeypatch.setattr(CloudPickleSerializer, "dumps", dumps)
    return sent


def secrets_in(sent: Sequence[bytes], sts: TokenService) -> list[str]:
    """Return the secrets that something contains which was sent: static ones, or issued for the role."""
    secrets = [BASE_SECRET, *sts.tokens, "SECRET0"]
    return [secret for secret in secrets if any(secret.encode() in each for each in sent)]


def test_a_table_is_read_as_the_role_by_this_process_and_by_the_tasks(
    spark_with_role: SparkSession,
    role: AssumedRole,
    sts: TokenService,
    signers: Signers,
    sent: list[bytes],
) -> None:
    derived = PlainDerived(f"s3://{BUCKET}/orders", role=role)
    derived.append((1, 1, "a"), (2, 2, "b"))
    signers()
    rows, _ = read_table(spark_with_role, derived.table.uri, role=role)
    keys = signers()
    assert keys
    assert keys <= sts.expirations.keys()
    assert sorted(row["key"] for row in rows.collect()) == [1, 2]
    keys = signers()
    assert keys
    assert keys <= sts.expirations.keys()
    assert sent
    assert secrets_in(sent, sts) == []


def replay_in_spark(spark: SparkSession, bench: Bench) -> None:
    bench.lose(0)
    assert bench.replay(fill=partial(fill, spark)).version is not None
    assert bench.items == [0, 1]


def scan_in_spark(spark: SparkSession, bench: Bench) -> None:
    """Read the rows as the doctor does."""
    files = [(file.path, file.size) for file in bench.table.snapshot().data_files()]
    counted = scan(spark, bench.table.folder, bench.stream, files).counted
    assert sum(each.rows for each in counted.values()) == 2


def append_in_spark(spark: SparkSession, bench: Bench) -> None:
    derived_twice(spark, bench, None)


def upsert_in_spark(spark: SparkSession, bench: Bench) -> None:
    derived_twice(spark, bench, Upsert(("partition_key",), ("sequence_number",)))


def roll_up_in_spark(spark: SparkSession, bench: Bench) -> None:
    derived_twice(spark, bench, Rollup(by=("partition_key",)))


def derived_twice(spark: SparkSession, bench: Bench, mode: Upsert | Rollup | None) -> None:
    """Write a derived table in two commits. Unless rows are appended, the second one replaces rows."""

    def transform(rows: DataFrame) -> DataFrame:
        if isinstance(mode, Rollup):
            return rows.groupBy("partition_key").count()
        return rows.select("partition_key", "sequence_number")

    table = DerivedTable(f"s3://{BUCKET}/derived", WRITING, bench.table.folder.role)
    for _ in range(2):
        (commit,) = derive(spark, table, Derivation(RAW, transform, mode))
        assert commit.rows
        bench.put(2)
        bench.run()
    assert bool(commit.deleted) is (mode is not None)


@pytest.mark.parametrize(
    "assumes_role",
    [True, pytest.param(False, marks=pytest.mark.thorough)],
    ids=["role", "static credentials"],
)
@pytest.mark.parametrize(
    "execute",
    [
        replay_in_spark,
        pytest.param(scan_in_spark, marks=pytest.mark.thorough),
        pytest.param(append_in_spark, marks=pytest.mark.thorough),
        upsert_in_spark,
        pytest.param(roll_up_in_spark, marks=pytest.mark.thorough),
    ],
)
def test_no_task_contains_a_secret(
    bench: Bench,
    spark_with_role: SparkSession,
    role: AssumedRole,
    sts: TokenService,
    signers: Signers,
    sent: list[bytes],
    execute: Callable[[SparkSession, Bench], None],
    assumes_role: bool,
) -> None:
    if assumes_role:
        bench.settings = replace(bench.settings, role=role)
    bench.table = PositionedTable(RAW, WRITING, role if assumes_role else None)
    bench.create()
    bench.put(0, 1)
    bench.run()
    signers()
    execute(spark_with_role, bench)
    assert bool(signers() & sts.expirations.keys()) is assumes_role
    assert sent
    assert secrets_in(sent, sts) == []
