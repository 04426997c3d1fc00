"""The lifetime of the Spark session of a run. test_server.py uses a real server."""

from __future__ import annotations

import threading
from contextlib import suppress

import dagster as dg
import pytest
from pyspark.errors import PySparkException

from kinesis_assets.dagster import in_process, spark_resource
from kinesis_assets.dagster.in_process import StreamProject
from kinesis_assets.errors import LandingFailed
from kinesis_assets.spark import session
from kinesis_assets.spark.connect import remote_url
from kinesis_assets.spark.session import start_session_in_background

CONFIG = {"spark.master": "local[1]"}


def test_a_session_ends_with_the_stream_that_started_it(monkeypatch, tmp_path):
    started, ended = [], []

    def start(config):
        started.append(config)
        return object()

    monkeypatch.setattr(spark_resource, "start_session", start)
    monkeypatch.setattr(spark_resource, "end_session", ended.append)
    project = StreamProject.from_settings("clicks", table=str(tmp_path / "clicks"), spark_config=CONFIG)
    with project.open_stream() as opened:
        assert started == []
        session = opened.start_spark()
        assert opened.start_spark() is session
        assert (started, ended) == ([CONFIG], [])
    assert ended == [session]


def test_a_stream_without_a_session_ends_none(monkeypatch, tmp_path):
    ended = []
    monkeypatch.setattr(spark_resource, "end_session", ended.append)
    with StreamProject.from_settings("clicks", table=str(tmp_path / "clicks")).open_stream():
        pass
    assert ended == []


def test_a_session_is_started_in_the_background(monkeypatch):
    started, go, done = [], threading.Event(), threading.Event()

    def start(config):
        assert go.wait(30)
        started.append(config)
        done.set()

    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setattr(session, "start_session", start)
    start_session_in_background(CONFIG)
    assert started == []
    go.set()
    assert done.wait(30)
    assert started == [CONFIG]


class Builder:
    """Stands in for PySpark's: its sessions need no JVM."""

    def config(self, *_: str) -> Builder:
        return self

    def getOrCreate(self) -> object:  # noqa: N802  # PySpark's name
        return object()


def test_a_session_is_ready_before_another_thread_gets_it(monkeypatch):
    both, met = threading.Barrier(2), []

    def add_package(_spark):
        with suppress(threading.BrokenBarrierError):
            both.wait(0.5)
            met.append("two threads prepare the session")

    monkeypatch.setattr("pyspark.sql.SparkSession.builder", Builder())
    monkeypatch.setattr(session, "prepare", lambda _: None)
    monkeypatch.setattr(session, "enable_ansi", lambda *_: None)
    monkeypatch.setattr(session, "add_package", add_package)
    starts = [
        threading.Thread(target=session.start_session, args=({"spark.master": "spark://a:7077"},))
        for _ in range(2)
    ]
    for start in starts:
        start.start()
    for start in starts:
        start.join()
    assert met == []


def test_no_session_is_started_in_the_background_for_a_remote_server(monkeypatch):
    monkeypatch.setenv("SPARK_REMOTE", "sc://a")
    monkeypatch.setattr(session, "ThreadPoolExecutor", None)  # a call fails
    start_session_in_background(CONFIG)


def test_a_run_from_a_script_starts_a_session_before_dagster_plans(monkeypatch, tmp_path):
    class Started(Exception):
        pass

    def start(config):
        raise Started(config, instance.get_runs())

    monkeypatch.setattr(in_process, "start_session_in_background", start)
    project = StreamProject.from_settings("clicks", table=str(tmp_path / "clicks"), spark_config=CONFIG)
    with dg.DagsterInstance.ephemeral() as instance, pytest.raises(Started) as caught:
        project.run(instance, {})
    assert caught.value.args == (CONFIG, [])


@pytest.mark.parametrize(
    ("config", "variable", "url"),
    [
        ({}, None, None),
        ({"spark.master": "local[1]"}, "sc://a", "sc://a"),
        ({"spark.remote": "sc://b"}, "sc://a", "sc://b"),
        ({}, "", None),
    ],
)
def test_the_remote_url_is_read_from_the_settings_and_then_from_the_variable(
    monkeypatch, config, variable, url
):
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    if variable is not None:
        monkeypatch.setenv("SPARK_REMOTE", variable)
    assert remote_url(config) == url


def test_the_reason_of_a_failed_expression_is_the_error_and_not_its_place():
    message = "[DIVIDE_BY_ZERO] Division by zero.\n== DataFrame ==\n/app/table.py:142\n"
    reason = r"nothing was committed: \[DIVIDE_BY_ZERO\] Division by zero\.$"
    with pytest.raises(LandingFailed, match=reason), session.wrap_spark_errors("table orders"):
        raise PySparkException(message)
