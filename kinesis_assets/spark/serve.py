"""The process that a `SparkServer` starts: Spark with its Connect service, until standard input ends."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


def main() -> None:
    """Serve with the settings of the first line. Once it answers, the named descriptor is told the port."""
    settings: dict[str, str] = json.loads(sys.stdin.readline())
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    service = getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")  # noqa: SLF001
    port = getattr(service, "MODULE$").localPort()
    _warm(f"sc://localhost:{port}", spark.sparkContext.defaultParallelism)
    with os.fdopen(int(sys.argv[1]), "w") as told:
        told.write(f"{port}\n")
    sys.stdin.read()
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()  # it may have an archive to write


def _warm(url: str, tasks: int) -> None:
    """Run a job as a landing's: the first of a JVM takes seconds more, and so do the first Python workers."""
    session = ConnectSession.builder.remote(url).create()
    try:
        session.range(0, tasks, 1, tasks).mapInArrow(_as_it_is, "id long").collect()
    finally:
        session.stop()


def _as_it_is(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import kinesis_assets.spark.fill  # noqa: F401, PLC0415  # and all that a landing's tasks load

    yield from batches


if __name__ == "__main__":
    main()
