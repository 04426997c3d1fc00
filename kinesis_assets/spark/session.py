"""Spark sessions: their start, the tasks and tags of their jobs, and their errors."""

from __future__ import annotations

import os
import re
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from heapq import heapreplace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from kinesis_assets.errors import LandingFailed
from kinesis_assets.spark.connect import (
    ConnectServer,
    attach,
    files_to_upload,
    remote_url,
    settings_of_server,
    uses_connect,
)
from kinesis_assets.spark.local_settings import (
    ENDS_WITHOUT_MEMORY,
    LOOPBACK,
    MANAGED,
    PYTHON,
    TASKS,
    TIME_ZONE,
    is_local,
    is_on_this_machine,
    local_settings,
    require_java,
    setting,
)
from kinesis_assets.spark.packages import add_package
from kinesis_assets.spark.pyspark_internals import (
    active_session,
    copied_session,
    enable_ansi,
    is_remote,
    java_errors,
    java_exit_status,
    require_spark_4,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from kinesis_assets.spark.managed import ManagedSession


_starting = threading.Event()

_start = threading.Lock()
"""Held while a classic session is started and prepared: a second thread gets it when it is ready."""

_managed: WeakKeyDictionary[SparkSession, ManagedSession] = WeakKeyDictionary()
"""The sessions that services of AWS run for this process."""

_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\] ")
"""The name with which the messages of Spark's own errors start."""

_OUT_OF_MEMORY = (
    "Spark has run out of memory. Set spark.driver.memory in spark_config to more than the 1g that a session "
    "on this machine has by default, or spark.executor.memory if a cluster executes the tasks"
)

_SECONDS_TO_END = 5.0
"""The time in which Java ends after a call to it has failed."""

_STARTS = "start of Spark"
"""Prefix of the name of the thread that starts a session in the background."""


def prepare(spark_config: Mapping[str, Any]) -> None:
    """Prepare this process for a session: check Java, and set the Python interpreter of the workers.

    Nothing is done for Spark Connect, whose server runs its own Java. Local workers use this interpreter. A
    cluster's executors have their own.

    Raises:
        InvalidInput: A Spark Connect server is named, and PySpark is older than 4.
        JavaUnavailable: Spark has to start a JVM on this machine and cannot.
    """
    if uses_connect(spark_config):
        require_spark_4("Spark Connect (SPARK_REMOTE, spark.remote or managed_spark)")
        return
    require_java()
    if python := setting(spark_config, PYTHON):
        os.environ["PYSPARK_PYTHON"] = python  # only spark-submit reads the setting
    elif is_on_this_machine(spark_config):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_local(spark_config):
        # The web UI, if a user enables it, has no other setting for its address.
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)


def start_session(spark_config: Mapping[str, Any]) -> SparkSession:
    """Return the session for a run: a new one on Spark Connect, and this process's session otherwise.

    Raises:
        JavaUnavailable: Spark has to start a JVM on this machine and cannot.
        InvalidInput: An archive for Spark Connect is not on this machine, or PySpark is older than 4.
        LandingFailed: No server responds at the URL in SPARK_REMOTE or spark.remote; the service that
            `managed_spark` names starts no session; Spark does not start in this process; or this package
            cannot be sent to the executors.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415

    # PySpark warns of pandas 3 also where only Arrow is used, as in this package.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    prepare(spark_config)
    if MANAGED in spark_config:
        return _start_managed(spark_config)
    url = remote_url(spark_config)
    if url and url.startswith("sc://"):
        return attach(ConnectServer(url), spark_config)
    settings = dict(spark_config) if url else local_settings(spark_config)
    with _start:
        _starting.set()
        try:
            spark = SparkSession.builder.config(map=settings).getOrCreate()
        except Exception as error:
            _starting.clear()
            reason = _cause(error).rstrip(". ")
            raise LandingFailed(
                f"Spark did not start, nothing was committed: {reason}. See what it printed in the output of "
                "this process, and spark_config, JAVA_HOME and SPARK_HOME"
            ) from error
        _starting.clear()  # not after an interrupt, when its Java may still be starting
        enable_ansi(spark, spark_config)
        if not is_local(spark_config):
            add_package(spark)
    return spark


def _start_managed(spark_config: Mapping[str, Any]) -> SparkSession:
    """Start a session on a service of AWS, which `end_session` stops."""
    from kinesis_assets.spark.managed import open_session, service_of  # noqa: PLC0415  # imports boto3

    files_to_upload(spark_config)  # before the session starts, which costs money
    managed = open_session(service_of(spark_config[MANAGED], settings_of_server(spark_config)))
    try:
        spark = attach(managed.server, spark_config)
    except BaseException:  # a stopped run must not leave a session that costs money
        managed.stop()
        raise
    _managed[spark] = managed
    return spark


def start_session_in_background(spark_config: Mapping[str, Any]) -> None:
    """Start this process's session in the background; `start_session` waits for it.

    If the start fails, `start_session` fails in the same way and raises. Nothing is done for Spark Connect.
    """
    if not uses_connect(spark_config):
        import pyspark.sql  # noqa: F401, PLC0415  # here, since a thread could import a half-initialized module

        background = ThreadPoolExecutor(1, _STARTS)
        background.submit(start_session, dict(spark_config))
        background.shutdown(wait=False)


def is_starting() -> bool:
    """Return whether a session is being started here, or its start was interrupted."""
    return _starting.is_set() or any(thread.name.startswith(_STARTS) for thread in threading.enumerate())


def end_session(spark: SparkSession) -> None:
    """End a session on Spark Connect. A session of this process is kept for its next run."""
    if not is_remote():
        return
    managed = _managed.pop(spark, None)
    try:
        spark.stop()
    finally:
        if managed is not None:
            managed.stop()


class SessionInTimeZone:
    """A session in which Spark evaluates expressions in a time zone, whatever that of a given session is.

    A classic session belongs to the process. It is copied on first use, with its temporary views, functions
    and settings, so that other code keeps its time zone. The copy has the same `SparkContext`, so
    `cancel_tagged` reaches its jobs. A session on Spark Connect belongs to the run, and is used itself.
    """

    def __init__(self, spark: SparkSession, time_zone: str) -> None:
        self._spark = spark
        self._time_zone = time_zone
        self._copy: SparkSession | None = None

    @contextmanager
    def active(self) -> Iterator[SparkSession]:
        """Yield the session, which `SparkSession.getActiveSession` returns in this thread in the context."""
        if is_remote():
            self._spark.conf.set(TIME_ZONE, self._time_zone)  # another table of the run may have another one
            yield self._spark
            return
        if self._copy is None:
            self._copy = copied_session(self._spark)
            self._copy.conf.set(TIME_ZONE, self._time_zone)
        with active_session(self._copy):
            yield self._copy


@contextmanager
def tagged(spark: SparkSession, tag: str) -> Iterator[None]:
    """Tag the jobs that this thread starts within the context, so that `cancel_tagged` can cancel them."""
    # In a classic session, the session's tags are visible only to the thread that added them.
    add, remove = (
        (spark.addTag, spark.removeTag)
        if is_remote()
        else (spark.sparkContext.addJobTag, spark.sparkContext.removeJobTag)
    )
    add(tag)
    try:
        yield
    finally:
        remove(tag)


def cancel_tagged(spark: SparkSession, tag: str) -> None:
    """Cancel the jobs with a tag, whichever thread started them."""
    if is_remote():
        spark.interruptTag(tag)
    else:
        spark.sparkContext.cancelJobsWithTag(tag)


def spark_errors() -> tuple[type[Exception], ...]:
    """Return the classes of Spark's errors."""
    from pyspark.errors import PySparkException  # noqa: PLC0415

    # A call to a JVM that was killed raises ConnectionError.
    return (PySparkException, ConnectionError, *java_errors())


def may_be_of_value(error: Exception) -> bool:
    """Return whether one of Spark's errors may be that of an expression which fails for some value.

    Some releases and sessions report all errors of tasks in the same way.
    """
    from pyspark.errors import AnalysisException, PythonException  # noqa: PLC0415

    return not isinstance(error, AnalysisException | PythonException | ConnectionError)


def reason_of_value(error: Exception) -> str | None:
    """Return Spark's own message about an expression that fails for some value; None if there is none."""
    condition = _CONDITION.search(line := _cause(error))
    return None if condition is None else line[condition.start() :]


@contextmanager
def wrap_spark_errors(subject: str) -> Iterator[None]:
    """Convert Spark's errors within the context to a line about what it works for, as "stream orders"."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415

    try:
        yield
    except spark_errors() as error:
        reason = first_line(error) if isinstance(error, AnalysisException) else _cause(error)
        if _is_out_of_memory(error):
            reason = f"{reason.rstrip('. ')}. {_OUT_OF_MEMORY}"
        raise LandingFailed(f"{subject}: the Spark job failed, nothing was committed: {reason}") from error


def _is_out_of_memory(error: Exception) -> bool:
    from pyspark.errors import PySparkException  # noqa: PLC0415

    if "OutOfMemoryError" in str(error):
        return True
    if isinstance(error, PySparkException) or hasattr(error, "java_exception"):
        return False  # Java has responded
    return java_exit_status(_SECONDS_TO_END) == ENDS_WITHOUT_MEMORY


def first_line(error: Exception) -> str:
    """Return the class and the message of an error of Spark's analysis, whose other lines show the plan."""
    return next(iter(_lines(error)), "").rstrip(";. ")


def _cause(error: Exception) -> str:
    """Return the line of an error of a Spark job that most likely says why it failed."""
    lines = _lines(error)
    causes = [line for line in lines if "Error: " in line or "Exception: " in line]
    # The last line of this error does not name the program.
    no_program = [line for line in lines if "Cannot run program" in line]
    # An error of an expression is followed by the place of the expression.
    named = [line for line in lines if _CONDITION.match(line)]
    return (no_program or causes or named or lines or [""])[-1]


def _lines(error: Exception) -> list[str]:
    # Py4J starts the line of Java's error with a colon.
    return [line.strip().removeprefix(": ") for line in str(error).splitlines() if line.strip()]


LEAST_ELASTIC = 8
"""The least number of tasks of a job if executors are allocated dynamically and without a limit."""

_MOST = 1 << 16
"""A server's parallelism is found with a range of this size. A larger one counts as this."""


def parallelism(spark: SparkSession) -> int:
    """Return the number of tasks of a job: the setting, or how many tasks the cluster can run at once.

    With dynamic allocation, that is what its largest number of executors can run, because Spark starts more
    of them only for tasks that wait. Without a largest number, it is what the present ones can run, but at
    least `LEAST_ELASTIC`: while the cluster is idle, there may be none.
    """
    if given := spark.conf.get(TASKS, ""):
        return int(given)
    allocates = not (spark.conf.get("spark.master", "") or "").startswith("local")
    is_elastic = allocates and spark.conf.get("spark.dynamicAllocation.enabled", "false") == "true"
    if is_elastic and (limit := _of_largest_cluster(spark)):
        return limit
    tasks = max(_of_present_cluster(spark), LEAST_ELASTIC if is_elastic else 1)
    if is_remote():
        spark.conf.set(TASKS, str(tasks))  # a session asks the server once
    return tasks


def balanced(weights: Sequence[float], groups: int) -> list[list[int]]:
    """Distribute items over groups: the heaviest first, each to the group with the smallest weight so far.

    Returns:
        The indexes of the items of each group, in their order.
    """
    loads = [(0.0, group) for group in range(groups)]
    assigned: list[list[int]] = [[] for _ in range(groups)]
    for number in sorted(range(len(weights)), key=lambda number: -weights[number]):
        load, group = loads[0]
        assigned[group].append(number)
        heapreplace(loads, (load + weights[number], group))
    return [sorted(numbers) for numbers in assigned]


def runs_on_this_machine(spark: SparkSession) -> bool:
    """Return whether the tasks of a session run in the JVM of this process."""
    return not is_remote() and is_local({"spark.master": spark.sparkContext.master})


def _of_largest_cluster(spark: SparkSession) -> int | None:
    """Return the number of tasks of all executors that may be allocated; None if there is no limit."""
    executors = spark.conf.get("spark.dynamicAllocation.maxExecutors", "")
    # Without this setting, an executor on YARN and Kubernetes has one core.
    cores = int(spark.conf.get("spark.executor.cores", "1") or 1)
    tasks = cores // int(spark.conf.get("spark.task.cpus", "1") or 1)
    return int(executors) * tasks if executors and tasks else None


def _of_present_cluster(spark: SparkSession) -> int:
    if not is_remote():
        return spark.sparkContext.defaultParallelism
    return int(spark.conf.get("spark.default.parallelism", "") or _of_server(spark))


def _of_server(spark: SparkSession) -> str:
    """Return the default parallelism of a server, into which it splits a range."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    parts = spark.range(_MOST).select(F.spark_partition_id().alias("part"))
    (last,) = parts.agg(F.max("part")).first() or (0,)
    return str(int(last) + 1)
