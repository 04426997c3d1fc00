"""A Spark Connect server on this machine, started and ended by who needs it, so that runs find Spark warm.

It is reached on loopback alone, and only with a token: whoever reaches it can run code as this user.
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
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kinesis_assets.errors import InvalidInput, SparkServerFailed
from kinesis_assets.spark.class_data_archive import archive_path
from kinesis_assets.spark.java import require_java
from kinesis_assets.spark.local_settings import JAVA_OPTIONS, LOOPBACK, local_settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import IO, Self

SECONDS_TO_START = 120.0
"""Within so many seconds the server answers, or it is ended."""

SECONDS_TO_STOP = 20.0
"""Within so many seconds it ends by itself, or is killed."""

SECONDS_TO_ARCHIVE = 300.0
"""Within so many seconds an ending server has written down what it has loaded."""

SECONDS_OF_SILENCE = 60.0
"""A server whose Java answers nothing for so long hangs, and ends."""

TASKS = 2
"""Tasks of one landing, as `spark.default.parallelism`."""

SIDE_BY_SIDE = 4
"""Runs whose tasks have room beside each other; dagster.yaml lets as many run."""

_NOT_OURS = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "MASTER")
"""Would let the server's own session look for another server."""


class SparkServer:
    """A Spark Connect server of this interpreter's pyspark. A context manager: it serves within.

    Its tasks run in this interpreter, with this process's environment as it was at the start: AWS settings
    and package are those of here. It ends with this process, however that ends; and where its Java has ended,
    or hangs.

    Attributes:
        log: The file that everything the server says goes to.
    """

    def __init__(
        self,
        log: Path,
        *,
        port: int = 0,
        tasks: int = TASKS,
        java_options: Sequence[str] = (),
        preload: Sequence[str] = (),
    ) -> None:
        """What to start; nothing is started yet.

        Args:
            log: A file, to which each start adds.
            port: On loopback; 0 for a free one.
            tasks: Of one landing.
            java_options: Of its JVM, besides those that every Spark here gets.
            preload: Names of the modules that its Python workers import at the start.
        """
        self.log = log
        self._port = port
        self._tasks = tasks
        self._java_options = java_options
        self._preload = preload
        self._token = secrets.token_urlsafe(24)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """What SPARK_REMOTE has to be. It has the token in it: keep it to yourself."""
        # A token goes over an unencrypted channel only to that name.
        return f"sc://localhost:{self._port}/;token={self._token}"

    @property
    def pid(self) -> int:
        """Of the process that all others of the server end with."""
        return self._started().pid

    def start(self) -> None:
        """Start it, and wait until it has answered a request, and run a job.

        Once it was stopped it can be started again, and then has the port and the token that it had.

        Raises:
            InvalidInput: The port is taken.
            JavaUnavailable: There is no Java.
            SparkServerFailed: It did not come up within `SECONDS_TO_START`.
        """
        require_java()
        _see_that_it_is_free(self._port)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        reading, writing = os.pipe()
        try:
            with self.log.open("ab") as log:
                # A session of its own, so that Ctrl-C reaches it through `stop` alone.
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
            with os.fdopen(reading) as told:
                self._await_port(told)
        except BaseException:
            self.stop()
            raise

    def stop(self, *, within: float = SECONDS_TO_STOP) -> None:
        """End it, and all that it started. Does nothing if it is not running.

        Args:
            within: Seconds until it is killed.
        """
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(within)
        # Its JVM may outlive it, if it was killed in the middle.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def wait(self) -> None:
        """Wait until something other than `stop` ends it.

        Raises:
            SparkServerFailed: It has ended.
        """
        raise self._ended(self._started().wait())

    def failed(self) -> SparkServerFailed | None:
        """How it has ended by something other than `stop`; None while it runs."""
        status = self._started().poll()
        return None if status is None else self._ended(status)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _ended(self, status: int) -> SparkServerFailed:
        return self._failed(f"ended with status {status}")

    def _failed(self, what: str) -> SparkServerFailed:
        return SparkServerFailed(f"the Spark server {what}: {self._last_line()}; {self.log} tells more")

    def _started(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "start it first"  # noqa: S101
        return self._process

    def _settings(self) -> dict[str, str]:
        settings = local_settings({"spark.master": f"local[{self._tasks * SIDE_BY_SIDE},4]"})
        options = [*settings.get(JAVA_OPTIONS, "").split(), *self._java_options]
        return {
            **settings,
            **({JAVA_OPTIONS: " ".join(options)} if options else {}),  # none are the site's own
            "spark.default.parallelism": str(self._tasks),
            "spark.app.name": "kinesis-assets",
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(self._port),
            # With it, each session would have Python workers of its own, and start them anew.
            "spark.sql.artifact.isolation.enabled": "false",
        }

    def _await_port(self, told: IO[str]) -> None:
        stdin = self._started().stdin
        assert stdin is not None  # noqa: S101  # it was asked for
        with suppress(BrokenPipeError):
            order = {
                "settings": self._settings(),
                "preload": [*self._preload],
                "seconds_of_silence": SECONDS_OF_SILENCE,
                "seconds_to_end": SECONDS_TO_ARCHIVE,
            }
            stdin.write(json.dumps(order).encode() + b"\n")
            stdin.flush()
        ready, _, _ = select.select([told], [], [], SECONDS_TO_START)
        if not ready:
            raise self._failed(f"did not come up within {SECONDS_TO_START:.0f} s")
        if not (port := told.readline()):
            raise self._failed("ended while it started")
        self._port = int(port)

    def _last_line(self) -> str:
        try:
            lines = self.log.read_text(errors="replace").split("\n")
        except OSError as error:
            return f"nothing can be read there ({error.strerror})"
        return next((line.strip() for line in reversed(lines) if line.strip()), "nothing")


def make_archive() -> Path:
    """Make the archive of Spark's classes, see `archive`: by a server that writes down what it has loaded.

    Takes half a minute of CPU.

    Raises:
        JavaUnavailable: There is no Java.
        SparkServerFailed: Spark does not come up here, or wrote no archive.
    """
    path = archive_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # a JVM that uses one writes no other
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        # Under its name it is there whole or not at all: a JVM dies of a part.
        whole = Path(folder, path.name)
        server = SparkServer(Path(folder, "log"), java_options=[f"-XX:ArchiveClassesAtExit={whole}"])
        server.start()
        server.stop(within=SECONDS_TO_ARCHIVE)
        if not whole.is_file():
            raise SparkServerFailed(f"Java wrote no archive of Spark's classes to {path.parent}")
        whole.replace(path)
    return path


def _environment(token: str) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_OURS}
    # By the environment, which only this user can read; a command line can be read by all.
    return environment | {
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": token,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": LOOPBACK,
        "no_grpc_proxy": "localhost",
    }


def _see_that_it_is_free(port: int) -> None:
    try:
        socket.create_server((LOOPBACK, port)).close()
    except OSError as error:
        raise InvalidInput(f"port {port}: {error.strerror}; name another") from error
