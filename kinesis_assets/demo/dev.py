"""`kinesis-assets dev`: the Dagster UI with an embedded stream that continuously receives orders."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from kinesis_assets.demo.orders import STREAM, put_orders
from kinesis_assets.demo.run import embedded_stream
from kinesis_assets.emulator import LocalKinesis
from kinesis_assets.errors import InvalidInput
from kinesis_assets.spark.local_settings import require_java
from kinesis_assets.spark.server import SparkServer, Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_ORDER_INTERVAL_SECONDS = 0.2
_STOP_SECONDS = 300


def run_dev(project: Path, port: int) -> int:
    """Run the development environment until it is interrupted (Ctrl-C or SIGTERM). It starts empty.

    Args:
        project: The folder that contains workspace.yaml and dagster.yaml.
        port: The port of the UI on 127.0.0.1.

    Returns:
        Dagster's exit code, or 0 after an interruption.

    Raises:
        InvalidInput: The port is in use, or the project's development environment already runs.
        SparkServerFailed: Spark does not start or stops repeatedly.
    """
    require_java()
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise InvalidInput(f"port {port}: {error.strerror}; choose another with --port") from error
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT too, because background jobs of scripts ignore it
        signal.signal(number, signal.default_int_handler)
    folder = project / ".local" / "dev"
    with _only_one(folder):
        return _run(project, folder, port)


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Hold a lock until the end of the block or of the process: each start deletes the folder of the last."""
    folder.parent.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InvalidInput(
                f"a development environment of this project is already running in {folder}; stop it, or use "
                "another clone"
            ) from None
        yield


def _run(project: Path, folder: Path, port: int) -> int:
    # The embedded stream starts empty, so the table and the runs of the last start do not match it.
    shutil.rmtree(folder, ignore_errors=True)
    home = folder / "dagster"
    home.mkdir(parents=True)
    shutil.copy(project / "dagster.yaml", home)
    stopped = threading.Event()
    click.echo("Starting a Spark server for all runs")
    with (
        LocalKinesis() as local,
        embedded_stream(local, folder / "orders") as kinesis,
        SparkServer(folder / "spark.log", preload=["kinesis_assets.operations.replay.task"]) as spark,
    ):
        kinesis.create_stream(StreamName=STREAM, ShardCount=4)
        producer = threading.Thread(target=_produce, args=(kinesis, stopped.wait))
        producer.start()
        click.echo(
            f"The embedded stream listens on {local.endpoint_url}; the UI opens on http://127.0.0.1:{port}"
        )
        # This interpreter, regardless of the PATH. A new session, so that Ctrl-C reaches Dagster only once.
        dagster = subprocess.Popen(  # noqa: S603
            [
                *(sys.executable, "-m", "dagster", "dev", "-w", str(project / "workspace.yaml")),
                *("-h", "127.0.0.1", "-p", str(port)),
            ],
            env=os.environ | {"DAGSTER_HOME": str(home), "SPARK_REMOTE": spark.url},
            cwd=project,
            start_new_session=True,
        )
        try:
            return _wait_for_dagster(dagster, Supervisor(spark, click.echo))
        except KeyboardInterrupt:
            return 0
        finally:
            _stop(dagster)
            stopped.set()
            producer.join()


def _wait_for_dagster(
    dagster: subprocess.Popen[bytes], spark: Supervisor, *, check_interval: float = 1.0
) -> int:
    """Wait for Dagster and return its exit code. Until then, keep the Spark server running."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            return dagster.wait(check_interval)
        spark.check()


def _stop(dagster: subprocess.Popen[bytes]) -> None:
    """Ask Dagster to stop its webserver, daemon and runs, and kill what does not stop in time.

    A run that was just being launched does not stop with Dagster. The next start deletes what it commits.
    """
    dagster.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        dagster.wait(_STOP_SECONDS)
    with suppress(ProcessLookupError):  # nothing is left
        os.killpg(dagster.pid, signal.SIGKILL)
    dagster.wait()


def _produce(kinesis: Any, wait: Callable[[float], bool]) -> None:
    number = 0
    while not wait(_ORDER_INTERVAL_SECONDS):
        for _ in put_orders(kinesis, number, 1):
            number += 1
