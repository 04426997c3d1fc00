"""Real clusters of Spark on loopback: their processes know nothing of this package or its environment."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import venv
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click
import pyspark

from benchmarks.harness.file_lock import locked
from benchmarks.harness.interruption import wait_for_interruption
from benchmarks.harness.waiting import wait_until
from kinesis_assets.spark import packages
from kinesis_assets.spark.local_settings import QUICK_JAVA, archive_options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

SPARK_HOME = Path(pyspark.__file__).parent
LOOPBACK = "127.0.0.1"
ENVIRONMENTS = Path(__file__).parents[2] / ".local" / "environments"
PYTHON_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"

QUICK_START = " ".join([QUICK_JAVA, *archive_options()])
"""Java options of processes that live for a few tests."""

WORKERS = 2

_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(r"Registering worker (\S+)")
_PORTS = ["--port", "0", "--webui-port", "0"]


def bare_python(folder: Path) -> Path:
    """Create a Python interpreter without any package, and return the folder of its program."""
    venv.create(folder, symlinks=True, with_pip=False)
    python = folder / "bin" / f"python{PYTHON_VERSION}"
    done = subprocess.run(
        [python, "-I", "-c", "import kinesis_assets"], capture_output=True, text=True, check=False
    )
    assert "No module named 'kinesis_assets'" in done.stderr
    return python.parent


def packed_environment() -> Path:
    """Return the archive with the packages that tasks import, which is packed once for all test sessions."""
    contents = [PYTHON_VERSION, *packages.task_requirements(), Path(packages.__file__).read_text()]
    name = hashlib.sha256("\n".join(contents).encode()).hexdigest()
    archive = ENVIRONMENTS / f"{name}.tar.gz"
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    with locked(ENVIRONMENTS / "lock"):
        if not archive.exists():
            for other in ENVIRONMENTS.glob("*.tar.gz"):
                other.unlink()
            unfinished = ENVIRONMENTS / "unfinished.tar.gz"
            packages.pack_environment(unfinished, PYTHON_VERSION)
            unfinished.rename(archive)
    return archive


def unpacked_environment(folder: Path) -> Path:
    """Unpack these packages into a new folder, and return a Python interpreter that has them."""
    folder.mkdir()
    subprocess.run(["tar", "-xzf", packed_environment(), "-C", folder], check=True)  # noqa: S607
    return folder / "bin" / "python"


class SparkProcesses(ABC):
    """Processes of Spark, which are killed at the end of the context.

    Args:
        folder: Where they write their logs and work.
        python: The folder of the Python interpreter that is the first on their PATH.

    Attributes:
        url: Where sessions connect to.
    """

    url = ""

    def __init__(self, folder: Path, python: Path) -> None:
        self.folder = folder
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "PYSPARK", "SPARK", "VIRTUAL_ENV", "AWS_"))
        }
        self._environment = inherited | {
            "PATH": f"{python}{os.pathsep}{os.environ['PATH']}",
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_CONF_DIR": str(folder),  # no configuration of this machine
            "SPARK_DAEMON_JAVA_OPTS": QUICK_START,
            "AWS_ACCESS_KEY_ID": "executor",
            "AWS_SECRET_ACCESS_KEY": "executor",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    @abstractmethod
    def launch(self) -> None:
        """Start the processes, and wait until they accept sessions."""

    @property
    @abstractmethod
    def config(self) -> dict[str, str]:
        """The settings of a session."""

    def __enter__(self) -> Self:
        try:
            self.launch()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    @property
    def pids(self) -> list[int]:
        """The ids of the processes that were started here. Others are their descendants."""
        return [process.pid for process in self._processes]

    def start(self, name: str, command: Sequence[str | Path]) -> tuple[subprocess.Popen[bytes], Path]:
        """Start a process in its own group. Return it, and the file to which it logs."""
        log = self.folder / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [SPARK_HOME / "bin" / command[0], *command[1:]],
                env=self._environment,
                cwd=self.folder,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._processes.append(process)
        return process, log


class StandaloneCluster(SparkProcesses):
    """A master and two workers, each with an address of its own, whose executors are processes of their own.

    Each session has one executor of one core on each worker. Four sessions can run at once.
    """

    def __init__(self, folder: Path, python: Path) -> None:
        super().__init__(folder, python)
        self._workers: list[subprocess.Popen[bytes]] = []
        self._started = 0

    def launch(self) -> None:
        """Start the processes, and wait until the master has registered the workers."""
        command = ["spark-class", "org.apache.spark.deploy.master.Master", "--host", LOOPBACK, *_PORTS]
        master, log = self.start("master", command)
        found = wait_until(lambda: _MASTER.findall(log.read_text()), master, failure=log)
        self.url = found[0]
        self.start_workers()

    def start_workers(self) -> None:
        """Start the workers that are missing, and wait until the master has registered them."""
        while len(self._workers) < WORKERS:
            number = self._started
            # Spark starts no speculative task on the host of the first one.
            place = ["--host", f"127.0.0.{1 + number}", *_PORTS]
            size = ["--cores", "4", "--memory", "2g", "--work-dir", str(self.folder / f"work-{number}")]
            name = "org.apache.spark.deploy.worker.Worker"
            worker, _ = self.start(f"worker-{number}", ["spark-class", name, *place, *size, self.url])
            self._workers.append(worker)
            self._started += 1
        master, log = self._processes[0], self.folder / "master.log"
        wait_until(
            lambda: len(set(_REGISTERED.findall(log.read_text()))) == self._started, master, failure=log
        )

    def kill_worker(self) -> None:
        """Kill a worker and its executors, which are in its process group, as if its machine failed."""
        worker = self._workers.pop()
        self._processes.remove(worker)
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    @property
    def config(self) -> dict[str, str]:
        """The settings of a session on the cluster."""
        return {
            "spark.master": self.url,
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.cores.max": "2",
            "spark.executor.cores": "1",
            "spark.driver.extraJavaOptions": QUICK_START,
            "spark.executor.extraJavaOptions": QUICK_START,
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
        }


class ConnectServer(SparkProcesses):
    """A Spark Connect server with three cores that Spark's own command starts."""

    def launch(self) -> None:
        """Start the server, and wait until it accepts connections."""
        with socket.create_server((LOOPBACK, 0)) as free:
            port = free.getsockname()[1]
        settings = {
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.extraJavaOptions": QUICK_START,
            "spark.ui.enabled": "false",
        }
        options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        service = "org.apache.spark.sql.connect.service.SparkConnectServer"
        command = ["spark-submit", "--master", "local[3]", *options, "--class", service, "spark-internal"]
        server, log = self.start("connect", command)
        self.url = f"sc://localhost:{port}"
        wait_until(lambda: _accepts(port), server, failure=log)

    @property
    def config(self) -> dict[str, str]:
        """The settings of a session on the server."""
        return {"spark.remote": self.url}


CLUSTERS: dict[str, type[SparkProcesses]] = {"standalone": StandaloneCluster, "connect": ConnectServer}


@click.command()
@click.argument("kind", type=click.Choice(list(CLUSTERS)))
def main(kind: str) -> None:
    """Run a cluster, and print the options with which kinesis-assets uses it."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        with CLUSTERS[kind](folder, bare_python(folder / "bare")) as cluster:
            # The cluster's own Python has no packages; that of this process has those that tasks import.
            settings = {"spark_config": cluster.config, "python_executable": sys.executable}
            pairs = [shlex.quote(f"{field}={json.dumps(value)}") for field, value in settings.items()]
            options = " ".join(f"--set {pair}" for pair in pairs)
            command = f"kinesis-assets run {options} --stream ... --table ..."
            wait_for_interruption(f"To use {cluster.url}:\n{command}")


def _accepts(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), timeout=5).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
