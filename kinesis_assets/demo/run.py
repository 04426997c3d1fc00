"""`kinesis-assets demo`: land records of a stream in a table across a reshard, and verify the table.

DuckDB, an independent reader, shows that the table contains exactly the acknowledged records.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import click
import dagster as dg
import pyarrow as pa

from kinesis_assets.dagster.events.metadata import QUIET
from kinesis_assets.dagster.sensor.sensor import evaluate
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.demo.orders import STREAM, put_orders
from kinesis_assets.demo.tables import build_order_tables
from kinesis_assets.emulator import LocalKinesis
from kinesis_assets.errors import RunCanceled
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.spark.local_settings import require_java

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb


_MAX_TICKS = 5
_SPARK = {"spark.master": "local[2,4]", "spark.log.level": "ERROR"}


def run_demo() -> bool:
    """Run the demonstration and print its steps on standard output.

    Returns:
        Whether the table contains exactly the acknowledged records.

    Raises:
        KeyboardInterrupt: The demonstration was interrupted. The path of its table was printed.
    """
    require_java()
    folder = Path(tempfile.mkdtemp(prefix="kinesis-assets-demo-"))
    table = folder / "orders"
    try:
        return _demonstrate(table)
    except (KeyboardInterrupt, RunCanceled):
        click.echo(f"Interrupted before the verification. The committed rows are in {table}", err=True)
        raise KeyboardInterrupt from None


def _demonstrate(table: Path) -> bool:
    with (
        LocalKinesis() as local,
        embedded_stream(local, table) as kinesis,
        dg.DagsterInstance.ephemeral() as instance,
    ):
        demo = _Demo(kinesis, table, instance)
        _print_step(f"The embedded stream listens on {local.endpoint_url}")
        kinesis.create_stream(StreamName=STREAM, ShardCount=4)
        demo.put(20_000)
        demo.materialize()
        _print_step("Splitting the first shard and merging the second with the third")
        _reshard(kinesis)
        demo.put(5_000)
        demo.materialize()
        _print_step("Verifying the table with DuckDB")
        proof = prove(table, demo.acknowledged)
        demo.print_shards(proof)
        click.echo()
        derived = demo.derive(f"{table}_derived")
    holds = proof.holds and set(derived) == {proof.acknowledged}
    verdict = "every record is there exactly once" if holds else "A TABLE IS WRONG"
    click.echo(
        f"\n{proof.acknowledged} records acknowledged, {proof.rows} rows in the table, "
        f"{proof.exact} of them exactly once with their bytes unchanged: {verdict}.\nThe table: {table}"
    )
    return holds


@contextmanager
def embedded_stream(local: LocalKinesis, table: Path) -> Iterator[Any]:
    """Point the environment to the embedded stream and the table, and yield a boto3 client of the stream."""
    settings = {
        "AWS_ACCESS_KEY_ID": "demo",
        "AWS_SECRET_ACCESS_KEY": "demo",
        "AWS_REGION": local.region,
        "AWS_ENDPOINT_URL_KINESIS": local.endpoint_url,
        "ORDERS_TABLE": str(table),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "NO_PROXY": "127.0.0.1",
    }
    before = dict(os.environ)
    os.environ.update(settings)
    try:
        # Not `boto3.client`: it would keep these credentials for the whole process.
        yield boto3.Session().client("kinesis", region_name=local.region, endpoint_url=local.endpoint_url)
    finally:
        os.environ.clear()
        os.environ.update(before)


class _Demo:
    def __init__(self, kinesis: Any, table: Path, instance: dg.DagsterInstance) -> None:
        self.acknowledged: list[tuple[str, str, str]] = []
        self._kinesis = kinesis
        self._project = StreamProject.from_settings(STREAM, table=str(table), spark_config=_SPARK)
        self._instance = instance
        self._cursor: str | None = None
        self._lag_ms: dict[str, int] = {}

    def put(self, count: int) -> None:
        started = time.monotonic()
        put = 0
        for batch in put_orders(self._kinesis, len(self.acknowledged), count):
            self.acknowledged += batch
            put += len(batch)
        _print_step(f"Put {put} orders of about 1 KB in {time.monotonic() - started:.1f} s")

    def materialize(self) -> None:
        """Evaluate the sensor and execute its run requests until a tick makes no progress."""
        for _ in range(_MAX_TICKS):
            if not self._tick():
                return

    def _tick(self) -> bool:
        """Run one tick. Returns whether it landed records or finished a shard, whose children follow."""
        with self._project.open_stream() as stream:
            tick = evaluate(stream, self._instance, self._cursor)
        self._cursor = tick.cursor
        for found in tick.dynamic_partitions_requests or []:
            shard_ids = found.partition_keys or []
            self._instance.add_dynamic_partitions(found.partitions_def_name, shard_ids)
            _print_step(f"The sensor found {len(shard_ids)} shards")
        progress = False
        for request in tick.run_requests or []:
            started = time.monotonic()
            facts = self._project.run(self._instance, request.tags)
            self._lag_ms |= {fact["shard"]: fact["lag_ms"] for fact in facts if "lag_ms" in fact}
            rows = sum(fact["rows"] for fact in facts)
            progress |= rows > 0 or any(fact["state"] == ShardState.FINISHED for fact in facts)
            took = time.monotonic() - started
            _print_step(f"Materialized {len(facts)} shards in one run: {rows} rows, {took:.1f} s")
        return progress

    def derive(self, folder: str) -> tuple[int, int]:
        """Materialize the tables that are derived from the orders; return how many orders each has."""
        tables = build_order_tables(folder)
        started = time.monotonic()
        definitions = dg.Definitions.merge(self._project.definitions, tables)
        job = definitions.resolve_implicit_global_asset_job_def()
        keys = [asset.key for asset in tables.assets or () if isinstance(asset, dg.AssetsDefinition)]
        job.execute_in_process(instance=self._instance, asset_selection=keys, run_config=QUIET)
        typed = count_rows(Path(folder, "latest_orders"), "count(DISTINCT order_id)")
        by_day = count_rows(Path(folder, "revenue_by_day"), "sum(orders)")
        took = time.monotonic() - started
        _print_step(f"Derived a typed table of {typed} orders, and the revenue of each day, in {took:.1f} s")
        return typed, by_day

    def print_shards(self, proof: Proof) -> None:
        with self._project.open_stream() as stream:
            identity = stream.client.describe().identity
            positions = stream.table.snapshot().positions(identity)
        if positions is None:
            return
        click.echo(f"\n{'shard':22}{'parent':44}{'state':10}{'rows':>6}{'lag_ms':>8}  position")
        for shard_id, shard in positions.shards.items():
            state = "finished" if shard.finished else "open"
            click.echo(
                f"{shard_id:22}{', '.join(shard.parents) or '-':44}{state:10}"
                f"{proof.rows_by_shard.get(shard_id, 0):>6}{self._lag_ms.get(shard_id, 0):>8}"
                f"  {shard.position}"
            )


def _reshard(kinesis: Any) -> None:
    first, second, third, _ = kinesis.list_shards(StreamName=STREAM)["Shards"]
    keys = first["HashKeyRange"]
    middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"])) // 2
    kinesis.split_shard(StreamName=STREAM, ShardToSplit=first["ShardId"], NewStartingHashKey=str(middle))
    kinesis.merge_shards(
        StreamName=STREAM, ShardToMerge=second["ShardId"], AdjacentShardToMerge=third["ShardId"]
    )


def _print_step(sentence: str) -> None:
    click.echo(f"- {sentence}")


@dataclass(frozen=True, slots=True)
class Proof:
    """A comparison of acknowledged records and table rows.

    Attributes:
        acknowledged: The number of records that the stream acknowledged.
        exact: The number of records that the table contains exactly once with unchanged bytes.
    """

    acknowledged: int
    rows: int
    exact: int
    rows_by_shard: dict[str, int]

    @property
    def holds(self) -> bool:
        """Whether the table contains every record exactly once and no other rows."""
        return self.acknowledged == self.rows == self.exact


def prove(table: Path, acknowledged: Sequence[tuple[str, str, str]]) -> Proof:
    """Compare a table with the acknowledged records.

    Args:
        acknowledged: (shard id, sequence number, SHA-256 of the data) of each record.
    """
    connection = _duckdb()
    columns = zip(*acknowledged, strict=True)
    put = pa.table(dict(zip(("shard_id", "sequence_number", "digest"), columns, strict=True)))
    connection.register("put", put)
    connection.execute(
        "CREATE TEMP TABLE landed AS "
        "SELECT shard_id, sequence_number, sha256(data) AS digest FROM delta_scan(?)",
        [str(table)],
    )
    exact = _count(
        connection,
        "SELECT count(*) FROM (SELECT shard_id, sequence_number, digest, count(*) AS times FROM landed "
        "GROUP BY ALL) SEMI JOIN put USING (shard_id, sequence_number, digest) WHERE times = 1",
    )
    by_shard = connection.execute("SELECT shard_id, count(*) FROM landed GROUP BY shard_id").fetchall()
    return Proof(len(acknowledged), _count(connection, "SELECT count(*) FROM landed"), exact, dict(by_shard))


def count_rows(table: Path, what: str) -> int:
    """Return the value of an SQL aggregate over a table."""
    connection = _duckdb()
    query = f"SELECT {what} FROM delta_scan(?)"  # noqa: S608  # the demonstration's own text
    return _count(connection, query, str(table))


def _count(connection: duckdb.DuckDBPyConnection, query: str, *parameters: str) -> int:
    row = connection.execute(query, parameters).fetchone()
    return int(row[0]) if row else 0


def _duckdb() -> duckdb.DuckDBPyConnection:
    import duckdb  # noqa: PLC0415  # slow to import
    import duckdb_extension_delta  # noqa: PLC0415

    # The extension is installed as a package, so loading it downloads nothing.
    extension = next(
        Path(str(duckdb_extension_delta.__file__)).parent.glob("extensions/*/delta.duckdb_extension")
    )
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{extension}'")
    return connection
