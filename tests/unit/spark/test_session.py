"""The lifetime of the Spark session of a run. test_server.py uses a real server."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from pyspark.errors import PySparkException

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.dagster import spark_resource, stream_project
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.errors import LandingFailed
from kinesis_assets.spark import session
from kinesis_assets.spark.connect import remote_url
from kinesis_assets.spark.session import start_session_in_background

if TYPE_CHECKING:
    from collections.abc import Callable

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
        assert go.wait(SECONDS)
        started.append(config)
        done.set()

    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setattr(session, "start_session", start)
    start_session_in_background(CONFIG)
    assert started == []
    go.set()
    assert done.wait(SECONDS)
    assert started == [CONFIG]


class Builder:
    """Stands in for PySpark's: its sessions need no JVM."""

    def config(self, **_: object) -> Builder:
        return self

    def getOrCreate(self) -> object:  # noqa: N802  # PySpark's name
        return object()


class WatchedLock:
    """A lock that calls a function in each thread that has to wait for it."""

    def __init__(self, on_wait: Callable[[], object]) -> None:
        self._lock = threading.Lock()
        self._on_wait = on_wait

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._on_wait()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_session_is_ready_before_another_thread_gets_it(monkeypatch):
    config, events, while_preparing = {"spark.master": "spark://a:7077"}, SimpleQueue(), []

    def get_session():
        session.start_session(config)
        events.put("has the session")

    other = threading.Thread(target=get_session)

    def add_package(_spark):
        if threading.current_thread() is other:
            events.put("prepares the session")
        else:
            other.start()
            while_preparing.append(events.get(timeout=SECONDS))

    monkeypatch.setattr("pyspark.sql.SparkSession.builder", Builder())
    monkeypatch.setattr(session, "prepare", lambda _: None)
    monkeypatch.setattr(session, "enable_ansi", lambda *_: None)
    monkeypatch.setattr(session, "add_package", add_package)
    monkeypatch.setattr(session, "_start", WatchedLock(lambda: events.put("waits")))
    session.start_session(config)
    other.join()
    assert while_preparing == ["waits"]


def test_no_session_is_started_in_the_background_for_a_remote_server(monkeypatch):
    monkeypatch.setenv("SPARK_REMOTE", "sc://a")
    monkeypatch.setattr(session, "ThreadPoolExecutor", None)  # a call fails
    start_session_in_background(CONFIG)


def test_a_run_from_a_script_starts_a_session_before_dagster_plans(monkeypatch, tmp_path):
    class Started(Exception):
        pass

    def start(config):
        raise Started(config, instance.get_runs())

    monkeypatch.setattr(stream_project, "start_session_in_background", start)
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


def test_the_reason_of_a_failed_task_is_without_the_marks_of_py4j():
    message = (
        "An error occurred while calling o50.collectToPython.\n: org.apache.SparkException: Job aborted\n"
    )
    reason = r"nothing was committed: org\.apache\.SparkException: Job aborted$"
    with pytest.raises(LandingFailed, match=reason), session.wrap_spark_errors("table orders"):
        raise PySparkException(message)


def test_an_error_of_a_job_without_memory_names_the_settings():
    message = "Job aborted\njava.lang.OutOfMemoryError: Java heap space\n"
    reason = r"OutOfMemoryError: Java heap space\. .* spark\.driver\.memory .* spark\.executor\.memory"
    with pytest.raises(LandingFailed, match=reason), session.wrap_spark_errors("table orders"):
        raise PySparkException(message)


@pytest.mark.parametrize(("status", "is_named"), [(3, True), (137, False), (None, False)])
def test_an_error_of_a_call_to_java_names_the_settings_if_java_has_ended_without_memory(
    monkeypatch, status, is_named
):
    monkeypatch.setattr(session, "java_exit_status", lambda _: status)
    with pytest.raises(LandingFailed) as raised, session.wrap_spark_errors("table orders"):
        raise ConnectionRefusedError("connection refused")
    assert ("spark.driver.memory" in str(raised.value)) is is_named
