"""Jobs on a Spark server, whose results are printed as one line of JSON.

They are in a process of their own, because a process has only one kind of session.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from benchmarks.harness.waiting import wait_until
from kinesis_assets.dagster.spark_resource import SparkResource
from kinesis_assets.decoders import Glue, Gzip, SchemaVersion, decode
from kinesis_assets.derive.derivation import Derivation, Upsert
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.run import derive
from kinesis_assets.errors import InvalidInput, LandingFailed
from kinesis_assets.ingest.land import land
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.spark.data_source import KinesisDataSource
from kinesis_assets.spark.session import cancel_tagged, parallelism, tagged, wrap_spark_errors
from kinesis_assets.table.raw_table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

CONFIG = {"spark.master": "local[7]", "spark.ui.enabled": "false", "spark.log.level": "ERROR"}
TASKS = 2
SCHEMA_ID = "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"
FRAME = bytes.fromhex("03 00 b7b4a7f0 9c96 4e4a a687 fb5de9ef0c63")


def connect() -> Any:
    return SparkResource(spark_config=CONFIG).spark_session


# Sessions and workers


def use_two_sessions() -> dict[str, Any]:
    """Use two resources, of which one ends before the other."""
    first, second = SparkResource(spark_config=CONFIG), SparkResource(spark_config=CONFIG)
    different = first.spark_session.session_id != second.spark_session.session_id
    tasks = parallelism(first.spark_session)
    before = second.spark_session.range(2).count()
    first.teardown_after_execution(dg.build_init_resource_context())
    after = second.spark_session.range(1).count()
    second.teardown_after_execution(dg.build_init_resource_context())
    return {"tasks": tasks, "different": different, "before": before, "after": after}


def interrupt_a_job(started: Path) -> str:
    """Interrupt a job of several minutes by its tag, and return the error.

    Args:
        started: A file that a task creates when it starts.
    """
    spark = connect()

    def run_for_minutes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            started.touch()
            time.sleep(600)
            yield pa.RecordBatch.from_pydict({"pid": [0]})

    def interrupt() -> None:
        wait_until(started.exists)
        cancel_tagged(spark, "kinesis-1")

    threading.Thread(target=interrupt).start()
    try:
        with wrap_spark_errors("stream any"), tagged(spark, "kinesis-1"):
            run_tasks(spark, run_for_minutes)
    except LandingFailed as error:
        return f"{type(error).__name__}: {error}"
    finally:
        spark.stop()
    return "no error"


def find_workers(folder: Path) -> list[int]:
    """Return the processes in which the tasks of a session run.

    Args:
        folder: A folder in which each task creates a file.
    """
    folder.mkdir()
    spark = connect()

    def process_id(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            folder.joinpath(str(os.getpid())).touch()
            while len(list(folder.iterdir())) < TASKS:  # so that no worker executes both tasks
                time.sleep(0.05)
            yield pa.RecordBatch.from_pydict({"pid": [os.getpid()]})

    found = sorted(row.pid for row in run_tasks(spark, process_id))
    spark.stop()
    return found


def run_tasks(spark: Any, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> Any:
    return spark.range(0, TASKS, 1, TASKS).mapInArrow(task, "pid long").collect()


# What the package does in Spark


def read(spark: Any, stream: str, endpoint_url: str, until: str) -> list[int]:
    """Return the numbers that the data source reads, sorted."""
    spark.dataSource.register(KinesisDataSource)
    options = {"stream": stream, "endpoint_url": endpoint_url, "region_name": "us-east-1", "until": until}
    frame = spark.read.format("kinesis").options(**options).load()
    return sorted(int(row.data) for row in frame.select("data").collect())


def run(spark: Any, stream: str, endpoint_url: str, uri: str) -> dict[str, int]:
    """Commit all records of a stream to a table, and return the number of rows by shard."""
    client = StreamClient(stream, ClientSettings("us-east-1", endpoint_url))
    table = PositionedTable(uri)
    shard_ids = [shard.shard_id for shard in client.list_shards()]
    plan = plan_run(client, table, asked=shard_ids, policy=ReadPolicy())
    result = execute_run(partial(land, spark), client, table, plan)
    return {shard_id: outcome.rows for shard_id, outcome in result.outcomes.items()}


def derive_table(spark: Any, source: str, uri: str) -> dict[str, Any]:
    """Derive a table with a key by a function in Python, after settings that Spark refuses.

    Returns:
        The errors, whether they left a table, and the rows of the table.
    """
    remainder = F.udf(lambda data: int(data) % 2, "int")
    mode = Upsert(("number",), ("sequence_number",))

    def numbers(new: DataFrame) -> DataFrame:
        return new.select(remainder("data").alias("number"), "sequence_number")

    def filtered(new: DataFrame) -> DataFrame:
        new.schema  # noqa: B018  # the session now knows the schema after the filter too
        return new.where("price > 1")

    refused = [
        Derivation(source, lambda new: new.select("price")),
        Derivation(source, filtered),
        Derivation(source, lambda new: new.columns),  # type: ignore[arg-type,return-value]
        Derivation(source, numbers, replace(mode, delete_where="gone")),
    ]
    errors = []
    for derivation in refused:
        try:
            list(derive(spark, DerivedTable(uri), derivation))
        except InvalidInput as error:
            errors.append(str(error))
    created = Path(uri).exists()
    list(derive(spark, DerivedTable(uri), Derivation(source, numbers, mode)))
    rows = DeltaTable(uri).to_pyarrow_table()["number"].to_pylist()
    return {"errors": errors, "created": created, "rows": sorted(rows)}


def decode_records(spark: Any) -> list[list[Any]]:
    """Decode one record without and three with errors; return value, schema id and error of each."""
    data = [gzip.compress(FRAME + document) for document in (b'{"order_id": 1}', b'{"order_id": "1"}')]
    data += [gzip.compress(b"plain"), data[0][:-1]]
    raw = spark.createDataFrame([(each, None) for each in data], "data binary, error string")
    decoders = [Gzip(), Glue("order_id long", schemas={SCHEMA_ID: SchemaVersion("JSON", "{}")})]
    rows = raw.transform(decode(*decoders)).collect()
    return [[row.value and row.value.order_id, row.schema_id, row.error] for row in rows]


def main(folder: Path, stream: str, endpoint_url: str, until: str) -> None:
    sessions = use_two_sessions()
    os.environ.pop("http_proxy")  # from here on, it would apply to the stream's endpoint
    spark, uri = connect(), str(folder / "table")
    results = {
        "sessions": sessions,
        "driver_port": int(spark.conf.get("spark.driver.port")),
        "read": read(spark, stream, endpoint_url, until),
        "committed": run(spark, stream, endpoint_url, uri),
        "rows": DeltaTable(uri).to_pyarrow_table().num_rows,
        "derived": derive_table(spark, uri, str(folder / "derived")),
        "decoded": decode_records(spark),
        "error": interrupt_a_job(folder / "started"),
        "workers": [find_workers(folder / f"session {number}") for number in range(2)],
    }
    spark.stop()
    print(json.dumps(results))  # noqa: T201  # the tests read it


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
