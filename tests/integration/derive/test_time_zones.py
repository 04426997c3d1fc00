"""Expressions of a derived table use UTC, or the time zone of its setting, whatever the session's is."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.dagster.table_rows import read_table
from kinesis_assets.derive.derivation import Rollup, Upsert
from kinesis_assets.errors import LandingFailed
from kinesis_assets.spark.session import cancel_tagged, tagged
from support.formats import derived_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from support.bench import Bench
    from support.derived import DerivedBench

TIME_ZONE = "spark.sql.session.timeZone"
ELSEWHERE = ["America/Los_Angeles", "Europe/Berlin"]

DERIVATION = Path(__file__).with_name("derivation_in_process.py")

MOMENTS = [
    datetime(2026, 1, 31, 23, 30, tzinfo=UTC),  # February in Berlin
    datetime(2026, 2, 1, 0, 30, tzinfo=UTC),  # January in Los Angeles
    datetime(2026, 10, 25, 0, 30, tzinfo=UTC),  # the first half past two of that night in Berlin
    datetime(2026, 10, 25, 1, 30, tzinfo=UTC),  # the second
    datetime(2026, 11, 1, 8, 30, tzinfo=UTC),  # the first half past one of that night in Los Angeles
    datetime(2026, 11, 1, 9, 30, tzinfo=UTC),  # the second
]
PAYLOADS = [b'{"id": %d, "at": "%s"}' % (id_, at.isoformat().encode()) for id_, at in enumerate(MOMENTS)]
DAYS = [(id_, at.date()) for id_, at in enumerate(MOMENTS)]


@pytest.fixture
def elsewhere(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """The time zone of the session; the parameter of the test if it has one."""
    before, zone = spark.conf.get(TIME_ZONE), getattr(request, "param", ELSEWHERE[0])
    spark.conf.set(TIME_ZONE, zone)
    yield zone
    spark.conf.set(TIME_ZONE, before)


@pytest.fixture
def moments(bench: Bench, derived: DerivedBench, elsewhere: str) -> DerivedBench:
    """A derived table, which does not exist yet, over records with an id and a moment."""
    del elsewhere
    bench.put(*PAYLOADS)
    bench.run()
    return derived


def decoded(rows: DataFrame) -> DataFrame:
    fields = F.from_json(F.col("data").cast("string"), "id INT, at TIMESTAMP")
    return rows.select(fields.alias("row")).select("row.*")


def days(rows: DataFrame) -> DataFrame:
    return decoded(rows).select("id", "at", F.to_date("at").alias("day"))


def hour_of_session(spark: SparkSession) -> int:
    """The hour of the epoch, as the code of a user sees it."""
    return int(spark.sql("SELECT hour(timestamp_seconds(0))").head()[0])


# Expressions


@pytest.mark.parametrize("elsewhere", ELSEWHERE, indirect=True)
def test_dates_and_hours_are_those_of_utc(moments):
    def parts(rows):
        return decoded(rows).selectExpr(
            "id",
            "CAST(at AS DATE) AS day",
            "hour(at) AS hour",
            "date_trunc('hour', at) AS since",
            "CAST(at AS STRING) AS text",
            "CAST('2026-01-31 12:00:00' AS TIMESTAMP) AS noon",
            "TIMESTAMP '2026-01-31 12:00:00' AS literal",
        )

    moments.run(transform=parts, partition_by=("day",))
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert moments.values("id", "day", "hour", "since", "text", "noon", "literal") == [
        (id_, at.date(), at.hour, at.replace(minute=0), f"{at:%Y-%m-%d %H:%M:%S}", noon, noon)
        for id_, at in enumerate(MOMENTS)
    ]


def test_select_and_where_use_utc(bench, typed, elsewhere):
    del elsewhere
    bench.put(*PAYLOADS)
    bench.run()
    typed.consume(
        schema="id INT, at TIMESTAMP",
        select=["id", "CAST(at AS DATE) AS day"],
        where="at >= TIMESTAMP '2026-02-01' AND hour(at) < 9",
    )
    assert typed.values("id", "day") == [DAYS[id_] for id_ in (1, 2, 3, 4)]


def test_delete_where_uses_utc(moments):
    mode = Upsert(("id",), ("at",), "CAST(at AS DATE) < DATE '2026-02-01' OR hour(at) = 1")
    moments.run(transform=decoded, mode=mode)
    assert moments.values("id") == [1, 2, 4, 5]


def test_two_hours_around_a_change_of_clocks_are_two_groups(moments, tmp_path):
    def counts(rows):
        hour = F.date_format("at", "HH").alias("text")
        return rows.groupBy("hour", hour).agg(F.count("*").alias("rows"))

    moments.run(transform=lambda rows: decoded(rows).withColumn("hour", F.date_trunc("hour", "at")))
    above = replace(moments, table=derived_at(str(tmp_path / "hours")))
    above.run(**moments.as_source, transform=counts, mode=Rollup(("hour",)))
    expected = [(at.replace(minute=0), f"{at:%H}", 1) for at in MOMENTS]
    assert sorted(above.values("hour", "text", "rows")) == expected


def test_a_function_of_pandas_gets_the_wall_clock_of_utc(moments):
    def hours(frames):
        for frame in frames:
            yield frame.assign(hour=frame["at"].dt.hour)[["id", "at", "hour"]]

    schema = "id INT, at TIMESTAMP, hour INT"
    moments.run(transform=lambda rows: decoded(rows).mapInPandas(hours, schema))
    assert moments.values("id", "at", "hour") == [(id_, at, at.hour) for id_, at in enumerate(MOMENTS)]


def test_a_table_can_have_a_time_zone_of_its_own(moments):
    moments.run(transform=days, time_zone="Asia/Tokyo")
    tokyo = {0: date(2026, 2, 1)}
    assert moments.values("id", "at", "day") == [
        (id_, at, tokyo.get(id_, at.date())) for id_, at in enumerate(MOMENTS)
    ]


def test_a_process_in_another_time_zone_derives_the_same_table(bench, derived):
    bench.put(*PAYLOADS)
    bench.run()
    command = [sys.executable, str(DERIVATION), bench.table.uri, derived.table.uri]
    environment = {**os.environ, "TZ": "America/Los_Angeles"}
    done = subprocess.run(command, check=False, capture_output=True, timeout=SECONDS, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().split() == ["16"]  # its own session has its own time zone
    assert derived.values("id", "day") == DAYS


def test_a_table_that_is_read_has_the_same_moments(moments):
    moments.run(transform=days, partition_by=("day",))
    rows, _ = read_table(moments.spark, moments.table.uri)
    found = rows.selectExpr("id", "unix_micros(at) AS micros", "CAST(day AS STRING) AS day").collect()
    assert sorted(map(tuple, found)) == [
        (id_, int(at.timestamp()) * 10**6, str(at.date())) for id_, at in enumerate(MOMENTS)
    ]


# The session of the user


def test_code_of_the_user_keeps_the_time_zone_of_its_session(moments, spark, elsewhere):
    before, seen = hour_of_session(spark), {}

    def transform(rows):
        def other_thread():
            seen["other"] = hour_of_session(SparkSession.builder.getOrCreate())
            seen["zone"] = spark.conf.get(TIME_ZONE)

        seen["given"], seen["own"] = hour_of_session(spark), hour_of_session(rows.sparkSession)
        thread = threading.Thread(target=other_thread)
        thread.start()
        thread.join()
        return days(rows)

    moments.run(transform=transform)
    assert before == 16
    assert seen == {"given": before, "own": 0, "other": before, "zone": elsewhere}
    assert hour_of_session(SparkSession.getActiveSession()) == before
    assert SparkSession.builder.getOrCreate() is spark
    assert moments.values("id", "day") == DAYS


def test_between_two_steps_the_active_session_is_that_of_the_user(bench, moments, spark):
    bench.put(*PAYLOADS)
    bench.run()
    sessions = []

    def transform(rows):
        sessions.append(rows.sparkSession)
        return decoded(rows)

    for _ in moments.steps(transform=transform, max_bytes=1):
        assert SparkSession.getActiveSession() is spark
        assert hour_of_session(SparkSession.builder.getOrCreate()) == hour_of_session(spark)
    assert len(sessions) == 2
    assert sessions[0] is sessions[1]


def test_rows_of_an_rdd_of_the_user_belong_to_the_session_of_the_user(moments, spark):
    def transform(rows):
        assert SparkSession.getActiveSession() is not None
        return decoded(rows)

    moments.run(transform=transform)
    rows = spark.sparkContext.parallelize([(0,)]).toDF(["seconds"])
    hour = rows.selectExpr("hour(timestamp_seconds(seconds))").head()[0]
    assert hour == hour_of_session(spark)


def test_a_function_uses_views_functions_and_settings_of_the_active_session(moments, spark):
    spark.createDataFrame([(0, "zero"), (1, "one")], "id INT, name STRING").createOrReplaceTempView("names")
    spark.udf.register("shouted", lambda text: text.upper(), "string")
    spark.conf.set("spark.sql.ansi.enabled", "false")

    def transform(rows):
        decoded(rows).createOrReplaceTempView("new_rows")
        for session in (SparkSession.getActiveSession(), SparkSession.builder.getOrCreate()):
            assert session.table("names").count() == 2
        return session.sql(
            "SELECT id, CAST(at AS DATE) AS day, shouted(name) AS name, CAST('x' AS INT) AS number "
            "FROM new_rows JOIN names USING (id)"
        )

    try:
        moments.run(transform=transform)
        assert not spark.catalog.tableExists("new_rows")
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
        spark.catalog.dropTempView("names")
        spark.sql("DROP TEMPORARY FUNCTION shouted")
    assert moments.values("id", "day", "name", "number") == [
        (0, DAYS[0][1], "ZERO", None),
        (1, DAYS[1][1], "ONE", None),
    ]


def test_rows_can_be_joined_with_those_of_the_session_of_the_user(moments, spark):
    names = spark.createDataFrame([(0, "zero"), (1, "one")], "id INT, name STRING")
    mode = Upsert(("id",), ("at",), "CAST(at AS DATE) = DATE '2026-02-01'")
    moments.run(transform=lambda rows: names.join(decoded(rows), "id"), mode=mode)
    assert moments.values("id", "name") == [(0, "zero")]


def test_rows_that_a_step_has_cached_are_released(moments, spark):
    moments.run(transform=decoded, mode=Upsert(("id",), ("at",)))
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == 0


def test_jobs_of_a_step_can_be_cancelled_by_the_session_of_the_user(moments, spark):
    started = threading.Event()

    def transform(rows):
        started.set()
        return decoded(rows).where("java_method('java.lang.Thread', 'sleep', 60000L) IS NULL")

    errors = []

    def run():
        with tagged(spark, "slow"):
            try:
                moments.run(transform=transform)
            except LandingFailed as error:
                errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    started.wait(SECONDS)
    while thread.is_alive():
        cancel_tagged(spark, "slow")
        thread.join(0.2)
    assert "cancelled" in str(errors[0])
