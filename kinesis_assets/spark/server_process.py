"""The process that a `SparkServer` starts: Spark with its Connect service, until standard input closes."""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from kinesis_assets.errors import LandingFailed
from kinesis_assets.spark.connect import server_code_version
from kinesis_assets.spark.local_settings import CODE, LOOPBACK
from kinesis_assets.spark.packages import code_hash
from kinesis_assets.spark.pyspark_internals import connect_port, java_process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kinesis_assets.spark.pyspark_internals import JavaProcess

PORT = "spark.connect.grpc.binding.port"
"""The setting for the port of the Connect service; 0 for a free one."""

_MIN_FAILURES = 2
"""Minimum consecutive failed requests before a server counts as unresponsive; it may be suspended during
one."""


def main() -> None:
    """Start the server with the settings in the first line of standard input.

    When the server responds, its port is written to the file descriptor that the command line names.
    """
    options: dict[str, Any] = json.loads(sys.stdin.readline())
    spark, port = _start(options["settings"] | {CODE: code_hash()})
    java = java_process(spark)
    stopping = threading.Event()
    if java is not None:
        threading.Thread(target=_end_with, args=[java, stopping], daemon=True).start()
    url = f"sc://localhost:{port}"
    _warm(url, spark.sparkContext.defaultParallelism, options["preload"])
    watch = [url, options["unresponsive_seconds"], options["seconds_to_end"], stopping]
    threading.Thread(target=_kill_if_unresponsive, args=watch, daemon=True).start()
    with os.fdopen(int(sys.argv[1]), "w") as output:
        output.write(f"{port}\n")
    sys.stdin.read()
    stopping.set()
    spark.stop()
    if java is not None:
        java.end()


def _start(settings: dict[str, Any]) -> tuple[SparkSession, int]:
    """Start Spark with its Connect service; return the session and the port of the service."""
    spark = SparkSession.builder.config(map=settings).getOrCreate()
    port = connect_port(spark)
    if port is None and not (port := int(settings[PORT])):
        with socket.create_server((LOOPBACK, 0)) as free:
            port = free.getsockname()[1]
        spark.stop()
        spark = SparkSession.builder.config(map={**settings, PORT: str(port)}).getOrCreate()
    return spark, port


def _end_with(java: JavaProcess, stopping: threading.Event) -> None:
    """End this process when its Java has ended unexpectedly, so that its supervisor sees the end."""
    status = java.wait()
    if not stopping.is_set():
        print(f"Java ended with status {status}", file=sys.stderr, flush=True)  # noqa: T201  # the server's log
        os._exit(1)


def _kill_if_unresponsive(url: str, silence: float, to_end: float, stopping: threading.Event) -> None:
    """Kill this process and its Java if Java hangs. Nothing else would end them.

    Args:
        silence: Seconds without a response after which Java counts as hanging.
        to_end: Seconds that it may take to end when it is stopped.
    """
    responded, failures = time.monotonic(), 0
    while not stopping.wait(silence / 6):
        try:
            server_code_version(url, silence / 3)
        except LandingFailed:
            failures += 1
        else:
            responded, failures = time.monotonic(), 0
        if failures >= _MIN_FAILURES and time.monotonic() - responded >= silence:
            print(f"Java has not responded for {silence:.0f} s", file=sys.stderr, flush=True)  # noqa: T201  # the server's log
            break
    else:
        time.sleep(to_end)  # the process that would kill it may be gone by then
    os.killpg(os.getpid(), signal.SIGKILL)


def _warm(url: str, tasks: int, modules: Sequence[str]) -> None:
    """Run a small job. The first job of a JVM and of its Python workers takes seconds longer than later ones.

    Args:
        modules: Modules that each task imports, so that later tasks in the same worker find them loaded.
    """

    def import_modules(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for module in modules:
            importlib.import_module(module)
        yield from batches

    session = SparkSession.builder.remote(url).create()
    try:
        session.range(0, tasks, 1, tasks).mapInArrow(import_modules, "id long").collect()
    finally:
        session.stop()


if __name__ == "__main__":
    main()
