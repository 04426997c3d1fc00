"""A Spark Connect server on this machine, so that runs do not have to start Spark.

It listens on loopback only and requires a token, because its clients can run code as this user.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kinesis_assets.errors import InvalidInput, SparkServerFailed
from kinesis_assets.spark.local_settings import (
    JAVA_OPTIONS,
    LOOPBACK,
    WORKER_DAEMON,
    archive_path,
    local_settings,
    require_java,
)
from kinesis_assets.spark.pyspark_internals import require_spark_4

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import IO, Self


SECONDS_TO_START = 900.0
"""Time limit for the server to start and respond; after it, the server is stopped. A start that fails ends
earlier. It takes minutes on a busy machine."""

SECONDS_TO_STOP = 20.0
"""Time limit for the server to stop; after it, the server is killed."""

SECONDS_TO_ARCHIVE = 300.0
"""Time limit for a stopping server to write the archive of its classes."""

UNRESPONSIVE_SECONDS = 300.0
"""Seconds without a response after which the server's Java counts as hanging and the server is killed."""

TASKS_PER_LANDING = 2
"""Tasks of one landing; the server's `spark.default.parallelism`."""

CONCURRENT_RUNS = 4
"""Number of runs whose tasks can run at the same time; dagster.yaml allows as many concurrent runs."""

_UNSET = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "MASTER")
"""Environment variables with which the server's own session would attach to another server."""


class SparkServer:
    """A Spark Connect server that runs this interpreter's pyspark. As a context manager, it runs within.

    Its tasks run in this Python interpreter, with the environment that this process had when the server
    started, including its AWS settings. The server ends with this process in any case, and when its Java ends
    or hangs.

    Args:
        log: A file, to which each start appends.
        port: The port on loopback; 0 for a free one.
        java_options: Options of its JVM, in addition to those of `local_settings`.
        preload: Modules that its Python workers import when it starts, so that runs find them loaded.
    """

    def __init__(
        self,
        log: Path,
        *,
        port: int = 0,
        java_options: Sequence[str] = (),
        preload: Sequence[str] = (),
        unresponsive_seconds: float = UNRESPONSIVE_SECONDS,
        seconds_to_archive: float = SECONDS_TO_ARCHIVE,
    ) -> None:
        self.log = log
        self._port = port
        self._java_options = java_options
        self._preload = preload
        self._unresponsive_seconds = unresponsive_seconds
        self._seconds_to_archive = seconds_to_archive
        self._token = secrets.token_urlsafe(24)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The value for SPARK_REMOTE. It contains the token and must be kept secret."""
        # The client sends a token over an unencrypted channel only to the host name localhost.
        return f"sc://localhost:{self._port}/;token={self._token}"

    @property
    def pid(self) -> int:
        """The id of the server's main process; its other processes end with it."""
        return self._started().pid

    def start(self) -> None:
        """Start the server, and wait until it responds and has run a job.

        A stopped server can be started again; it keeps its port and token.

        Raises:
            InvalidInput: The port is in use, or PySpark is older than 4.
            JavaUnavailable: Java is not installed, or is too old.
            SparkServerFailed: It did not start within `SECONDS_TO_START`.
        """
        require_spark_4("a Spark Connect server")
        require_java()
        _require_free_port(self._port)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        reading, writing = os.pipe()
        with os.fdopen(reading) as output:
            try:
                with self.log.open("ab") as log:
                    # A new session, so that Ctrl-C does not reach it; only `stop` stops it.
                    self._process = subprocess.Popen(  # noqa: S603
                        [sys.executable, "-m", "kinesis_assets.spark.server_process", str(writing)],
                        stdin=subprocess.PIPE,
                        stdout=log,
                        stderr=log,
                        env=_environment(self._token),
                        pass_fds=[writing],
                        start_new_session=True,
                    )
            finally:
                os.close(writing)
            try:
                self._await_port(output)
            except BaseException:
                self.stop()
                raise

    def stop(self, *, within: float = SECONDS_TO_STOP) -> None:
        """Stop the server and all of its processes. Does nothing if it is not running."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(within)
        # Its JVM may still run if the process was killed.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        deadline = time.monotonic() + _SECONDS_TO_END
        while not _is_free(self._port) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def wait(self) -> None:
        """Wait until the server ends other than by `stop`, and raise `SparkServerFailed` then."""
        raise self._failed(f"ended with status {self._started().wait()}")

    def failed(self) -> SparkServerFailed | None:
        """Return the error if the server has ended other than by `stop`; None while it runs."""
        status = self._started().poll()
        return None if status is None else self._failed(f"ended with status {status}")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _failed(self, event: str) -> SparkServerFailed:
        return SparkServerFailed(f"the Spark server {event}: {self._last_line()}; see {self.log}")

    def _started(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server is not started"  # noqa: S101
        return self._process

    def _settings(self) -> dict[str, str]:
        settings = local_settings({"spark.master": f"local[{TASKS_PER_LANDING * CONCURRENT_RUNS},4]"})
        settings.pop(WORKER_DAEMON, None)  # a session may bring another version of this package
        options = [*settings.get(JAVA_OPTIONS, "").split(), *self._java_options]
        return {
            **settings,
            **({JAVA_OPTIONS: " ".join(options)} if options else {}),  # or those of spark-defaults.conf
            "spark.default.parallelism": str(TASKS_PER_LANDING),
            "spark.app.name": "kinesis-assets",
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(self._port),
            # With isolation, each session would start its own Python workers.
            "spark.sql.artifact.isolation.enabled": "false",
        }

    def _await_port(self, output: IO[str]) -> None:
        stdin = self._started().stdin
        assert stdin is not None  # noqa: S101  # it is a pipe
        with suppress(BrokenPipeError):
            options = {
                "settings": self._settings(),
                "preload": [*self._preload],
                "unresponsive_seconds": self._unresponsive_seconds,
                "seconds_to_end": self._seconds_to_archive,
            }
            stdin.write(json.dumps(options).encode() + b"\n")
            stdin.flush()
        ready, _, _ = select.select([output], [], [], SECONDS_TO_START)
        if not ready:
            raise self._failed(f"did not start within {SECONDS_TO_START:.0f} s")
        if not (port := output.readline()):
            raise self._failed("ended during its start")
        self._port = int(port)

    def _last_line(self) -> str:
        try:
            lines = self.log.read_text(errors="replace").split("\n")
        except OSError as error:
            return f"its log cannot be read ({error.strerror})"
        return next((line.strip() for line in reversed(lines) if line.strip()), "its log is empty")


def make_archive() -> Path:
    """Create the archive of Spark's classes, see `local_settings`, and return its path.

    It starts a server that archives the classes it has loaded. That takes half a minute of CPU.

    Raises:
        InvalidInput: PySpark is older than 4.
        JavaUnavailable: Java is not installed, or is too old.
        SparkServerFailed: Spark does not start on this machine, or wrote no archive.
    """
    path = archive_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # a JVM that uses an archive does not write one
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        # The file is moved to its path only when it is complete, because an incomplete one crashes a JVM.
        complete = Path(folder, path.name)
        server = SparkServer(Path(folder, "log"), java_options=[f"-XX:ArchiveClassesAtExit={complete}"])
        server.start()
        server.stop(within=SECONDS_TO_ARCHIVE)
        if not complete.is_file():
            raise SparkServerFailed(f"Java wrote no archive of Spark's classes to {path.parent}")
        complete.replace(path)
    return path


def _environment(token: str) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name not in _UNSET}
    # The token is passed in the environment, which only this user can read; command lines are public.
    return environment | {
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": token,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": LOOPBACK,
        "no_grpc_proxy": "localhost",
    }


_SECONDS_TO_END = 30.0
"""Maximum time for which a process that was killed may keep the port, while the system frees its memory."""

_POLL_SECONDS = 0.05


def _is_free(port: int) -> bool:
    try:
        _require_free_port(port)
    except InvalidInput:
        return False
    return True


def _require_free_port(port: int) -> None:
    try:
        socket.create_server((LOOPBACK, port)).close()
    except OSError as error:
        raise InvalidInput(f"port {port}: {error.strerror}; choose another port") from error


MAX_RESTARTS = 3
"""Maximum consecutive restarts. A server that ends after each of them is not restarted again."""

STABLE_SECONDS = 300.0
"""Seconds of running after which a start counts as successful, so that the count of restarts is reset."""


class Supervisor:
    """Supervises a started server, which keeps its port and token when it is restarted.

    Call `check` about once a second.

    Args:
        report: Called with a message for each restart.
    """

    def __init__(
        self,
        server: SparkServer,
        report: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._report = report
        self._clock = clock
        self._started_at = clock()
        self._restarts = 0

    def check(self) -> None:
        """Restart the server if it has ended.

        Raises:
            SparkServerFailed: It ended or failed to start after each of `MAX_RESTARTS` consecutive restarts.
        """
        failed: SparkServerFailed | InvalidInput | None = self._server.failed()
        if failed is None:
            return
        if self._clock() - self._started_at >= STABLE_SECONDS:
            self._restarts = 0
        while True:
            if self._restarts == MAX_RESTARTS:
                raise SparkServerFailed(f"{failed}; given up after {MAX_RESTARTS} restarts") from failed
            self._restarts += 1
            self._report(f"{failed}. Restarting it")
            self._server.stop()  # some of its processes may still run
            try:
                self._server.start()
            except (SparkServerFailed, InvalidInput) as error:  # a remaining process may still use the port
                failed = error
            else:
                self._started_at = self._clock()
                return
