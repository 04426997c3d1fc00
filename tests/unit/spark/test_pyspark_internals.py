"""Private names of PySpark, and the fallback if a release lacks one. test_server.py uses a real server."""

from __future__ import annotations

import sys
import threading
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from pyspark import accumulators
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect import client, proto
from pyspark.sql.connect.client import retries

from kinesis_assets.errors import LandingFailed
from kinesis_assets.spark import pyspark_internals, session
from kinesis_assets.spark.pyspark_internals import (
    active_session,
    connect_port,
    copied_session,
    java_process,
    limit_retries,
    restricts_unpickling,
    server_setting,
)
from kinesis_assets.spark.worker_daemon import WORKER

NO_SERVER = "sc://localhost:1"
"""An address without a server."""


@pytest.fixture(autouse=True)
def clear_warnings():
    pyspark_internals._warn.cache_clear()


class Gateway:
    def __init__(self):
        self.proc = SimpleNamespace(stdin=None, wait=lambda: 7)

    def shutdown(self): ...


def test_the_java_process_of_a_session_can_be_waited_for(caplog):
    java = java_process(SimpleNamespace(sparkContext=SimpleNamespace(_gateway=Gateway())))
    assert java.wait() == 7
    java.end()
    assert caplog.text == ""


@pytest.mark.parametrize("missing", ["_gateway", "proc", "shutdown"])
def test_a_missing_private_name_gives_no_java_process_and_a_warning(caplog, monkeypatch, missing):
    gateway = Gateway()
    context = SimpleNamespace(_gateway=gateway)
    if missing == "_gateway":
        del context._gateway
    elif missing == "proc":
        del gateway.proc
    else:
        monkeypatch.delattr(Gateway, "shutdown")
    assert java_process(SimpleNamespace(sparkContext=context)) is None
    assert "has no SparkContext._gateway" in caplog.text


SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$"


def jvm(service):
    return SimpleNamespace(_jvm=SimpleNamespace(**{SERVICE: SimpleNamespace(**{"MODULE$": service})}))


def test_the_port_is_read_from_the_connect_service(caplog):
    assert connect_port(jvm(SimpleNamespace(localPort=lambda: 15002))) == 15002
    assert caplog.text == ""


@pytest.mark.parametrize(
    "spark",
    [SimpleNamespace(), SimpleNamespace(_jvm=SimpleNamespace()), jvm(SimpleNamespace(localPort="a package"))],
    ids=["_jvm", "SparkConnectService", "localPort"],
)
def test_a_missing_private_name_gives_no_port_and_a_warning(caplog, spark):
    assert connect_port(spark) is None
    assert "has no SparkConnectService.localPort" in caplog.text


class ClassicSession:
    """A session whose Java object has some methods, with settings of which one cannot be changed."""

    def __init__(self, context=None, java=None, **settings):
        self.sparkContext, self._jsparkSession, self.newSession = context, java, ClassicSession
        self.conf = SimpleNamespace(
            getAll=settings, set=settings.__setitem__, isModifiable=lambda name: name != "static"
        )


def test_a_session_is_copied(caplog):
    copy = copied_session(ClassicSession("context", SimpleNamespace(cloneSession=lambda: "copy")))
    assert (copy.sparkContext, copy._jsparkSession) == ("context", "copy")
    assert caplog.text == ""


def test_a_missing_private_name_gives_a_new_session_with_the_same_settings_and_a_warning(caplog):
    session = ClassicSession("context", SimpleNamespace(), static="1", ansi="false")
    copy = copied_session(session)
    assert copy is not session
    assert copy.conf.getAll == {"ansi": "false"}
    assert "has no SparkSession.cloneSession" in caplog.text


class ActiveSessions:
    """The class of the JVM's sessions, with that of this thread."""

    def __init__(self):
        self.active = None

    def getActiveSession(self):  # noqa: N802
        active = self.active
        return SimpleNamespace(isDefined=lambda: active is not None, get=lambda: active)

    def setActiveSession(self, session):  # noqa: N802
        self.active = session

    def clearActiveSession(self):  # noqa: N802
        self.active = None


def test_a_session_is_the_active_one_of_its_thread_within_the_context(caplog):
    java = ActiveSessions()
    outer, inner = (ClassicSession(java=name) for name in ("outer", "inner"))
    outer._jvm = inner._jvm = SimpleNamespace(SparkSession=java)
    found = []
    with active_session(outer):
        with active_session(inner):
            assert (SparkSession._activeSession, SparkSession._instantiatedSession) == (inner, inner)
            assert java.active == "inner"
            other = threading.Thread(target=lambda: found.append(SparkSession._activeSession))
            other.start()
            other.join()
        assert (SparkSession._activeSession, java.active) == (outer, "outer")
    assert (SparkSession._activeSession, SparkSession._instantiatedSession, java.active) == (None, None, None)
    assert found == [None]
    assert caplog.text == ""


@pytest.mark.parametrize("missing", ["_activeSession", "_instantiatedSession"])
def test_a_missing_private_name_leaves_the_active_session_as_it_is_and_warns(caplog, monkeypatch, missing):
    session = ClassicSession()
    session._jvm = SimpleNamespace(SparkSession=None)
    monkeypatch.delattr(SparkSession, missing)
    before = SparkSession.__dict__.copy()
    with active_session(session):
        assert SparkSession.__dict__ == before
    assert "has no SparkSession._activeSession" in caplog.text


def test_retries_are_limited(caplog):
    policies = []
    limit_retries(SimpleNamespace(client=SimpleNamespace(set_retry_policies=policies.extend)), 3)
    assert [policy.max_retries for policy in policies] == [3]
    assert caplog.text == ""


@pytest.mark.parametrize("missing", ["client", "DefaultPolicy"])
def test_a_missing_private_name_gives_unlimited_retries_and_a_warning(caplog, monkeypatch, missing):
    spark = SimpleNamespace(client=SimpleNamespace(set_retry_policies=lambda _: None))
    if missing == "client":
        del spark.client
    else:
        monkeypatch.delattr(retries, missing)
    limit_retries(spark, 3)
    assert "has no SparkConnectClient.set_retry_policies" in caplog.text


def test_a_missing_private_name_means_unrestricted_unpickling(monkeypatch):
    monkeypatch.delattr(accumulators, "specialAccumulatorSer", raising=False)
    assert not restricts_unpickling()


def test_a_server_that_does_not_respond_is_a_connection_error(caplog):
    with pytest.raises(ConnectionError):
        server_setting(NO_SERVER, "spark.app.name", 5)
    assert caplog.text == ""


HIDDEN = [
    (client, "DefaultChannelBuilder"),
    (client.ChannelBuilder, "metadata"),
    (proto.base_pb2_grpc, "SparkConnectServiceStub"),
    (proto.base_pb2, "ReleaseSessionRequest"),
]


class Session:
    """A session on a server with one setting."""

    ended = 0

    def __init__(self):
        self.conf = SimpleNamespace(get={"spark.app.name": "mine"}.get)

    def stop(self):
        Session.ended += 1


@pytest.mark.parametrize(("owner", "name"), HIDDEN, ids=[name for _, name in HIDDEN])
def test_a_missing_private_name_reads_the_setting_in_a_session_and_warns(caplog, monkeypatch, owner, name):
    builder = SimpleNamespace(remote=lambda _: SimpleNamespace(create=Session))
    monkeypatch.setattr("pyspark.sql.SparkSession", SimpleNamespace(builder=builder))
    monkeypatch.setattr(Session, "ended", 0)
    monkeypatch.delattr(owner, name, raising=False)
    assert server_setting(NO_SERVER, "spark.app.name", 60) == "mine"
    assert server_setting(NO_SERVER, "spark.other", 60) == ""
    assert Session.ended == 2
    assert caplog.text.count("has no pyspark.sql.connect.proto") == 1


@pytest.mark.parametrize("fails", [True, False], ids=["fails", "does not respond"])
@pytest.mark.slow
def test_a_session_that_cannot_be_created_in_time_is_a_connection_error(monkeypatch, fails):
    def create():
        if fails:
            raise PySparkException("no server")
        pyspark_internals.threading.Event().wait()

    builder = SimpleNamespace(remote=lambda _: SimpleNamespace(create=create))
    monkeypatch.setattr("pyspark.sql.SparkSession", SimpleNamespace(builder=builder))
    monkeypatch.delattr(client, "DefaultChannelBuilder")
    with pytest.raises(ConnectionError, match="no server" if fails else "no response within 0.2 s"):
        server_setting(NO_SERVER, "spark.app.name", 60 if fails else 0.2)


def test_spark_errors_are_reported_without_py4j(monkeypatch):
    monkeypatch.setitem(sys.modules, "py4j.protocol", None)
    with pytest.raises(LandingFailed), session.wrap_spark_errors("clicks"):
        raise PySparkException("broken")


def test_pyspark_has_the_modules_that_the_daemon_of_workers_runs():
    assert all(find_spec(name) for name in ("pyspark.daemon", WORKER))
