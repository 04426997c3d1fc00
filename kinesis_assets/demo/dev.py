"""`kinesis-assets dev`: the Dagster UI on the embedded stream, with orders coming in."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from kinesis_assets.demo.orders import STREAM, put_orders
from kinesis_assets.demo.run import embedded_stream
from kinesis_assets.emulator import LocalKinesis
from kinesis_assets.errors import InvalidInput
from kinesis_assets.spark.java import require_java
from kinesis_assets.spark.server import SparkServer
from kinesis_assets.spark.supervisor import Keeper

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SECONDS_BETWEEN_ORDERS = 0.2
_SECONDS_BETWEEN_LOOKS = 1
_SECONDS_TO_STOP = 60


def run_dev(project: Path, port: int) -> int:
    """Serve until interrupted (Ctrl-C or SIGTERM), from an empty state. Returns the exit code of Dagster.

    Args:
        project: The folder of workspace.yaml and dagster.yaml.
        port: Of the UI, on loopback.

    Raises:
        InvalidInput: The port is taken.
        SparkServerFailed: Spark does not come up, or ends again and again.
    """
    require_java()
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise InvalidInput(f"port {port}: {error.strerror}; name another with --port") from error
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a script's background jobs ignore it
        signal.signal(number, signal.default_int_handler)
    folder = project / ".local" / "dev"
    # The embedded stream is new each time, so the table and the runs of the last time mean nothing to it.
    shutil.rmtree(folder, ignore_errors=True)
    home = folder / "dagster"
    home.mkdir(parents=True)
    shutil.copy(project / "dagster.yaml", home)
    stopped = threading.Event()
    with (
        LocalKinesis() as local,
        embedded_stream(local, folder / "orders") as kinesis,
        _warm_spark(folder / "spark.log") as spark,
    ):
        kinesis.create_stream(StreamName=STREAM, ShardCount=4)
        producer = threading.Thread(target=_produce, args=(kinesis, stopped.wait))
        producer.start()
        click.echo(
            f"The embedded stream answers on {local.endpoint_url}; the UI opens on http://127.0.0.1:{port}"
        )
        # The same interpreter, whatever the PATH says; its own session, so that Ctrl-C reaches it once.
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
            return _ended(dagster, Keeper(spark, click.echo))
        except KeyboardInterrupt:
            return 0
        finally:
            _stop(dagster)
            stopped.set()
            producer.join()


def _warm_spark(log: Path) -> SparkServer:
    click.echo("Starting Spark, once for all runs")
    return SparkServer(log, preload=["kinesis_assets.replay.task"])


def _ended(dagster: subprocess.Popen[bytes], spark: Keeper) -> int:
    """Dagster's exit code, once it has ended; until then runs find a Spark."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            return dagster.wait(_SECONDS_BETWEEN_LOOKS)
        spark.look()


def _stop(dagster: subprocess.Popen[bytes]) -> None:
    """Let Dagster end its webserver, daemon and runs; end it if it does not."""
    dagster.send_signal(signal.SIGINT)
    try:
        dagster.wait(_SECONDS_TO_STOP)
    except subprocess.TimeoutExpired:
        os.killpg(dagster.pid, signal.SIGKILL)
        dagster.wait()


def _produce(kinesis: Any, wait: Callable[[float], bool]) -> None:
    number = 0
    while not wait(_SECONDS_BETWEEN_ORDERS):
        for _ in put_orders(kinesis, number, 1):
            number += 1
