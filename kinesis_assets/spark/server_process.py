"""The process that a `SparkServer` starts: Spark with its Connect service, until standard input ends."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession

from kinesis_assets.errors import LandingFailed
from kinesis_assets.spark.code_version import CODE, code_of
from kinesis_assets.spark.connect import ask

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

_ASKS = 2
"""In vain, one after the other, before a server counts as silent: it may have been frozen during one."""


def main() -> None:
    """Serve as the first line orders. Once it answers, the named descriptor is told the port."""
    order: dict[str, Any] = json.loads(sys.stdin.readline())
    builder = SparkSession.builder.config(CODE, code_of())
    for name, value in order["settings"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    service = getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")  # noqa: SLF001
    port = getattr(service, "MODULE$").localPort()
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    asked = threading.Event()
    threading.Thread(target=_end_with, args=[gateway.proc, asked], daemon=True).start()
    url = f"sc://localhost:{port}"
    _warm(url, spark.sparkContext.defaultParallelism, order["preload"])
    watch = [url, order["seconds_of_silence"], order["seconds_to_end"], asked]
    threading.Thread(target=_end_if_silent, args=watch, daemon=True).start()
    with os.fdopen(int(sys.argv[1]), "w") as told:
        told.write(f"{port}\n")
    sys.stdin.read()
    asked.set()
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()  # it may have an archive to write


def _end_with(java: subprocess.Popen[bytes], asked: threading.Event) -> None:
    """End this process when its Java has ended unasked, so that who keeps it sees that nothing serves."""
    status = java.wait()
    if not asked.is_set():
        print(f"Java ended with status {status}", file=sys.stderr, flush=True)  # noqa: T201  # the server's log
        os._exit(1)


def _end_if_silent(url: str, silence: float, to_end: float, asked: threading.Event) -> None:
    """End this process and its Java where that hangs, as nothing else does.

    Args:
        url: Of its service.
        silence: Seconds without an answer.
        to_end: Seconds that it takes to end by itself.
        asked: It was told to end.
    """
    answered, in_vain = time.monotonic(), 0
    while not asked.wait(silence / 6):
        try:
            ask(url, silence / 3)
        except LandingFailed:
            in_vain += 1
        else:
            answered, in_vain = time.monotonic(), 0
        if in_vain >= _ASKS and time.monotonic() - answered >= silence:
            print(f"Java has answered nothing for {silence:.0f} s", file=sys.stderr, flush=True)  # noqa: T201  # as above
            break
    else:
        time.sleep(to_end)  # who would kill it then may be gone
    os.killpg(os.getpid(), signal.SIGKILL)


def _warm(url: str, tasks: int, modules: Sequence[str]) -> None:
    """Run a small job. The first job of a JVM and of its Python workers takes seconds longer than later ones.

    Args:
        url: The URL of the service.
        tasks: Number of tasks of the job.
        modules: Modules that each task imports, so that later tasks in the same worker find them loaded.
    """

    def import_modules(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for module in modules:
            importlib.import_module(module)
        yield from batches

    session = ConnectSession.builder.remote(url).create()
    try:
        session.range(0, tasks, 1, tasks).mapInArrow(import_modules, "id long").collect()
    finally:
        session.stop()


if __name__ == "__main__":
    main()
