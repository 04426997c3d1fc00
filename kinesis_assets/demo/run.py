"""`kinesis-assets demo`: from the stream to the table, through a reshard, and the proof."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import click
import dagster as dg

from kinesis_assets.dagster.in_process import StreamProject
from kinesis_assets.dagster.sensor import evaluate
from kinesis_assets.definitions import defs
from kinesis_assets.demo.orders import STREAM, put_orders
from kinesis_assets.demo.proof import prove
from kinesis_assets.emulator import LocalKinesis
from kinesis_assets.errors import RunCanceled
from kinesis_assets.ingest.run import ShardState
from kinesis_assets.spark.java import require_java

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.demo.proof import Proof

_MOST_TICKS = 5


def run_demo() -> bool:
    """The demonstration, printed on standard output. Returns whether the table holds exactly what was put.

    Raises:
        KeyboardInterrupt: It was interrupted; where its table is was printed.
    """
    require_java()
    folder = Path(tempfile.mkdtemp(prefix="kinesis-assets-demo-"))
    table = folder / "orders"
    try:
        return _demonstrate(table)
    except (KeyboardInterrupt, RunCanceled):
        click.echo(f"Interrupted before the proof. The rows committed so far are in {table}", err=True)
        raise KeyboardInterrupt from None


def _demonstrate(table: Path) -> bool:
    with LocalKinesis() as local, embedded_stream(local, table) as kinesis:
        demo = _Demo(kinesis)
        _say(f"The embedded stream answers on {local.endpoint_url}")
        kinesis.create_stream(StreamName=STREAM, ShardCount=4)
        demo.put(20_000)
        demo.materialize()
        _say("Splitting the first shard, merging the second with the third")
        _reshard(kinesis)
        demo.put(5_000)
        demo.materialize()
        _say("Asking DuckDB what the table holds")
        proof = prove(table, demo.acknowledged)
        demo.print_shards(proof)
    verdict = "every record is there exactly once" if proof.holds else "THE TABLE IS WRONG"
    click.echo(
        f"\n{proof.acknowledged} records acknowledged, {proof.rows} rows in the table, "
        f"{proof.exact} of them exactly once with their bytes unchanged: {verdict}.\nThe table: {table}"
    )
    return proof.holds


@contextmanager
def embedded_stream(local: LocalKinesis, table: Path) -> Iterator[Any]:
    """A boto3 client of the embedded stream; meanwhile the environment leads to it and to the table."""
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
        yield boto3.client("kinesis", region_name=local.region, endpoint_url=local.endpoint_url)
    finally:
        os.environ.clear()
        os.environ.update(before)


class _Demo:
    def __init__(self, kinesis: Any) -> None:
        self.acknowledged: list[tuple[str, str, str]] = []
        self._kinesis = kinesis
        self._project = StreamProject.deployed(STREAM, defs)
        self._instance = dg.DagsterInstance.ephemeral()
        self._cursor: str | None = None
        self._lag_ms: dict[str, int] = {}

    def put(self, count: int) -> None:
        began = time.monotonic()
        put = 0
        for batch in put_orders(self._kinesis, len(self.acknowledged), count):
            self.acknowledged += batch
            put += len(batch)
        _say(f"Put {put} orders of about 1 KB in {time.monotonic() - began:.1f} s")

    def materialize(self) -> None:
        """Tick as the daemon would, and run what each tick asks for, until a tick finds nothing new."""
        for _ in range(_MOST_TICKS):
            if not self._tick():
                return

    def _tick(self) -> bool:
        """Whether there was a record, or a shard came to its end, after which its children can be read."""
        with self._project.manager() as manager:
            tick = evaluate(manager, self._instance, self._cursor)
        self._cursor = tick.cursor
        for found in tick.dynamic_partitions_requests or []:
            shard_ids = found.partition_keys or []
            self._instance.add_dynamic_partitions(found.partitions_def_name, shard_ids)
            _say(f"The sensor found {len(shard_ids)} shards")
        progress = False
        for request in tick.run_requests or []:
            began = time.monotonic()
            facts = self._project.run(self._instance, request.tags)
            self._lag_ms |= {fact["shard"]: fact["lag_ms"] for fact in facts if "lag_ms" in fact}
            rows = sum(fact["rows"] for fact in facts)
            progress |= rows > 0 or any(fact["state"] == ShardState.FINISHED for fact in facts)
            took = time.monotonic() - began
            _say(f"Materialized {len(facts)} shards in one run: {rows} rows, {took:.1f} s")
        return progress

    def print_shards(self, proof: Proof) -> None:
        with self._project.manager() as manager:
            identity = manager.client().describe().identity
            positions = manager.positioned_table().snapshot().positions(identity)
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


def _say(sentence: str) -> None:
    click.echo(f"- {sentence}")
