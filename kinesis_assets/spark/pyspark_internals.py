"""Every name of PySpark, and of its libraries, that is not part of a public API.

If the installed release lacks one of the names, each function logs a warning and takes the public way,
which is slower or does less.

It also has what differs before Spark 4: features that are missing, and a default that is set to that of
Spark 4.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType


_log = logging.getLogger(__name__)


class JavaProcess:
    """The Java process that a classic session has started. Raises `AttributeError` for a missing name."""

    def __init__(self, spark: SparkSession) -> None:
        gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
        self._process: subprocess.Popen[bytes] = gateway.proc
        self._shut_down: Callable[[], object] = gateway.shutdown

    def wait(self) -> int:
        """Wait until the process ends, and return its exit status."""
        return self._process.wait()

    def end(self) -> None:
        """End the process after its session has stopped, and wait for it; it may be writing an archive."""
        self._shut_down()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def folder_of_session(spark: SparkSession) -> str | None:
    """Return the folder for temporary files of a classic session; None if a private name is missing.

    Java deletes it at its end, also if this process was killed.
    """
    try:
        folder: str = spark.sparkContext._temp_dir  # noqa: SLF001
    except AttributeError:
        _warn("SparkContext._temp_dir", "files with what a consumer received may stay if a run is killed")
        return None
    return folder


def java_process(spark: SparkSession) -> JavaProcess | None:
    """Return the Java process of a classic session; None if a private name is missing."""
    try:
        return JavaProcess(spark)
    except AttributeError:
        _warn(
            "SparkContext._gateway",
            "an unexpected end of Java is noticed only when it no longer responds, and no class data archive "
            "can be created",
        )
        return None


def java_exit_status(seconds: float) -> int | None:
    """Return the exit status of the Java that this process has started, if it ends within some seconds.

    None if it goes on, this process has started none, or a private name is missing.
    """
    try:
        from pyspark import SparkContext  # noqa: PLC0415  # takes long to import

        gateway: Any = SparkContext._gateway  # noqa: SLF001
        if gateway is None:
            return None
        process: subprocess.Popen[bytes] = gateway.proc
    except (ImportError, AttributeError):
        _warn("SparkContext._gateway.proc", "an error does not say that Java has run out of memory")
        return None
    with suppress(TimeoutExpired):
        return process.wait(seconds)
    return None


def connect_port(spark: SparkSession) -> int | None:
    """Return the port of the Spark Connect service in a classic session's JVM; None if it is not known."""
    missing: tuple[type[Exception], ...] = (AttributeError, TypeError, *java_errors())
    try:
        service = getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")  # noqa: SLF001
        return int(getattr(service, "MODULE$").localPort())
    except missing:
        _warn("SparkConnectService.localPort", "a server on a free port is started twice")
        return None


def java_errors() -> tuple[type[Exception], ...]:
    """Return the errors that a call to the JVM raises, in addition to those of `pyspark.errors`."""
    try:
        from py4j.protocol import Py4JError  # noqa: PLC0415  # Spark's workers do not need it
    except ImportError:
        return ()  # only a session on Spark Connect is possible
    return (Py4JError,)


def copied_session(spark: SparkSession) -> SparkSession:
    """Return a copy of a classic session, with its temporary views, functions and settings."""
    missing: tuple[type[Exception], ...] = (AttributeError, TypeError, *java_errors())
    with _same_rdds():
        try:
            return type(spark)(spark.sparkContext, spark._jsparkSession.cloneSession())  # noqa: SLF001
        except missing:
            _warn("SparkSession.cloneSession", "derived tables see no temporary views and functions")
        copy = spark.newSession()
    for name, value in spark.conf.getAll.items():
        if copy.conf.isModifiable(name):
            copy.conf.set(name, value)
    return copy


@contextmanager
def _same_rdds() -> Iterator[None]:
    """Keep the session of `RDD.toDF`, which is that of the last object of a session that PySpark has created.

    PySpark 3.5 also creates one when it returns the active session.
    """
    from pyspark import RDD  # noqa: PLC0415  # takes long to import

    rdd: Any = RDD
    before = rdd.toDF
    try:
        yield
    finally:
        rdd.toDF = before


@contextmanager
def active_session(spark: SparkSession) -> Iterator[None]:
    """Make a classic session the active one of this thread within the context.

    There, `SparkSession.getActiveSession` and `SparkSession.builder.getOrCreate` return it. Both keep the
    session in a variable of the process, although PySpark documents that of a thread.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415

    try:
        of_jvm = _java_class(spark)
        java: Any = spark._jsparkSession  # noqa: SLF001
        variables = {name: vars(SparkSession)[name] for name in ("_activeSession", "_instantiatedSession")}
    except (AttributeError, KeyError):
        _warn("SparkSession._activeSession", "in derived tables, rows are not of the active session")
        yield
        return
    for name, of_process in variables.items():
        if not isinstance(of_process, _SessionOfThread):
            setattr(SparkSession, name, _SessionOfThread(of_process))
    before, before_in_jvm = getattr(_of_thread, "session", None), of_jvm.getActiveSession()
    _of_thread.session = spark
    of_jvm.setActiveSession(java)
    try:
        with _same_rdds():
            yield
    finally:
        _of_thread.session = before
        with suppress(*java_errors(), ConnectionError):  # Java may have ended
            if before_in_jvm.isDefined():
                of_jvm.setActiveSession(before_in_jvm.get())
            else:
                of_jvm.clearActiveSession()


def _java_class(spark: SparkSession) -> Any:
    """Return the class of the JVM's session. PySpark 3.5 has no function that does."""
    jvm: Any = spark._jvm  # noqa: SLF001
    found: Any = getattr(spark, "_get_j_spark_session_class", None)
    return jvm.SparkSession if found is None else found(jvm)


_of_thread = threading.local()


@dataclass(frozen=True)
class _SessionOfThread:
    """A class variable of `SparkSession` that has another value in a thread with an active session."""

    of_process: SparkSession | None

    def __get__(self, instance: object, owner: object) -> SparkSession | None:
        session: SparkSession | None = getattr(_of_thread, "session", None)
        return self.of_process if session is None else session


def server_setting(url: str, name: str, seconds: float) -> str:
    """Return a setting of a Spark Connect server, without creating a session; empty if it is not set.

    Raises:
        ConnectionError: The server does not respond in time, or its URL is invalid.
    """
    try:
        import grpc  # type: ignore[import-untyped]  # noqa: PLC0415  # takes 0.5 s that only Spark Connect needs
        from pyspark.errors import PySparkException  # noqa: PLC0415
        from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415
        from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc  # noqa: PLC0415

        open_channel, headers_of = DefaultChannelBuilder.toChannel, DefaultChannelBuilder.metadata
        stub: Any = base_pb2_grpc.SparkConnectServiceStub
        user = base_pb2.UserContext(user_id="kinesis-assets")
        asked = base_pb2.ConfigRequest.GetOption(keys=[name])
        request = base_pb2.ConfigRequest(
            session_id=str(uuid4()),
            user_context=user,
            operation=base_pb2.ConfigRequest.Operation(get_option=asked),
        )
        release = base_pb2.ReleaseSessionRequest(session_id=request.session_id, user_context=user)
    except (ImportError, AttributeError, TypeError, ValueError):
        _warn("pyspark.sql.connect.proto", "a session is created to check the Spark Connect server")
        return _setting_of_session(url, name, seconds)
    try:
        builder = DefaultChannelBuilder(url)
        with open_channel(builder) as channel:
            server, headers = stub(channel), tuple(headers_of(builder))
            response = server.Config(request, timeout=seconds, metadata=headers)
            server.ReleaseSession(release, timeout=seconds, metadata=headers)
    except (grpc.RpcError, PySparkException, ValueError) as error:
        details = error.details() if isinstance(error, grpc.Call) else str(error)
        raise ConnectionError(details) from error
    return "".join(pair.value for pair in response.pairs)


def _setting_of_session(url: str, name: str, seconds: float) -> str:
    """Return a setting through a session. PySpark retries for minutes, so it runs in its own thread."""
    found: list[str | None] = []
    errors: list[Exception] = []

    def read() -> None:
        from pyspark.sql import SparkSession  # noqa: PLC0415

        try:
            session = SparkSession.builder.remote(url).create()
            try:
                found.append(session.conf.get(name, ""))
            finally:
                session.stop()
        except Exception as error:  # noqa: BLE001  # raised by the caller's thread
            errors.append(error)

    thread = threading.Thread(target=read, name="setting of a Spark server", daemon=True)
    thread.start()
    thread.join(seconds)
    if found:
        return found[0] or ""
    if errors:
        raise ConnectionError(str(errors[0])) from errors[0]
    raise ConnectionError(f"no response within {seconds:g} s")


def session_with_token(url: str, token: Callable[[], str], settings: Mapping[str, Any]) -> SparkSession:
    """Create a session on a Spark Connect server, each of whose calls carries the current token."""
    from kinesis_assets.spark.connect_token import HEADER, AddToken  # noqa: PLC0415  # imports grpc, as above

    try:
        from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415
        from pyspark.sql.connect.session import SparkSession as ConnectSession  # noqa: PLC0415

        channel = DefaultChannelBuilder(url)
        channel.add_interceptor(AddToken(token))
        builder: Any = ConnectSession.builder.channelBuilder(channel)
    except (ImportError, AttributeError, TypeError):
        from pyspark.sql import SparkSession  # noqa: PLC0415

        _warn("ChannelBuilder.add_interceptor", "a run that takes longer than its token is valid fails")
        builder = SparkSession.builder.remote(f"{url.rstrip('/')}/;{HEADER}={quote(token())}")
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # as PySpark's own builder does for a URL
    session: SparkSession = builder.config(map=dict(settings)).create()
    return session


def limit_retries(session: SparkSession, retries: int) -> None:
    """Limit how often a session on Spark Connect retries a call; by default it does for ten minutes."""
    try:
        from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415

        session.client.set_retry_policies([DefaultPolicy(max_retries=retries)])
    except (ImportError, AttributeError, TypeError):
        _warn("SparkConnectClient.set_retry_policies", "the end of a server is noticed after minutes")


def restricts_unpickling() -> bool:
    """Return whether PySpark's Connect client limits what it unpickles of a server's response.

    The answer is no if the private name is missing, which is only a reason for a warning.

    Source: https://github.com/apache/spark/pull/58798 (SPARK-59508, in PySpark 4.3)
    """
    from pyspark import accumulators  # noqa: PLC0415  # takes long to import

    return hasattr(accumulators, "specialAccumulatorSer")


def parse_ddl(text: str) -> DataType:
    """Parse a Spark type in DDL. Before Spark 4, no public function of PySpark does.

    Raises `ParseException` if the text is not a type.
    """
    from pyspark.sql import types  # noqa: PLC0415  # takes long to import

    if hasattr(types.DataType, "fromDDL"):
        return types.DataType.fromDDL(text)
    return types._parse_datatype_string(text)  # noqa: SLF001


def pyspark_version() -> str:
    """Return the version of the installed PySpark."""
    import pyspark  # noqa: PLC0415  # takes long to import

    return str(pyspark.__version__)


@contextmanager
def unlogged_analysis_errors() -> Iterator[None]:
    """Keep PySpark from printing the errors of its analysis, each as a line of JSON with a traceback.

    Before Spark 4, it prints none.
    """
    try:
        from pyspark.logger import PySparkLogger  # noqa: PLC0415  # takes long to import
    except ImportError:
        yield
        return
    loggers = [
        PySparkLogger.getLogger(f"{context}QueryContextLogger")  # a logger of another class would fail
        for context in ("SQL", "DataFrame")
    ]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


@cache
def _warn(name: str, consequence: str) -> None:
    """Log a warning, once for each missing name."""
    _log.warning("PySpark %s has no %s: %s", pyspark_version(), name, consequence)


_ANSI = "spark.sql.ansi.enabled"


def is_spark_3() -> bool:
    """Return whether the installed PySpark is older than Spark 4."""
    return int(pyspark_version().partition(".")[0]) < 4  # noqa: PLR2004


def is_remote() -> bool:
    """Return whether the session of this process is on Spark Connect."""
    if is_spark_3():
        return False
    from pyspark.sql import is_remote  # noqa: PLC0415  # of Spark 4

    return is_remote()


def require_spark_4(feature: str) -> None:
    """Check that the installed PySpark has a feature, which is the subject of the error."""
    if is_spark_3():
        raise InvalidInput(
            f"{feature} needs Spark 4, and PySpark {pyspark_version()} is installed. Install pyspark>=4, or "
            "do without it, see docs/spark.md"
        )


def error_condition(error: PySparkException) -> str | None:
    """Return the name of an error, such as PARSE_SYNTAX_ERROR. Spark 4 calls this its condition."""
    condition: str | None = error.getErrorClass() if is_spark_3() else error.getCondition()
    return condition


def enable_ansi(spark: SparkSession, spark_config: Mapping[str, Any]) -> None:
    """Enable the ANSI mode of a session, as Spark 4 does by default.

    Without it, an overflow or an invalid cast in an expression of a derived table is a wrong number or null
    instead of an error. A setting of the session, of spark-defaults.conf or of spark-submit has precedence.
    """
    if is_spark_3() and _ANSI not in spark_config and not spark.sparkContext.getConf().contains(_ANSI):
        spark.conf.set(_ANSI, "true")
