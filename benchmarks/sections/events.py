"""What Dagster's own events cost a run over many shards, stored one by one or in batches."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from benchmarks.harness.cpu import Usage, tree_cpu
from benchmarks.harness.section import Section, markdown_table
from benchmarks.harness.spread import Spread
from benchmarks.servers.postgresql import postgresql, storage_on

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUNDS = 5
SHARDS = 250
BATCH_SIZES = (0, 250)
BATCH_SIZE = "DAGSTER_EVENT_BATCH_SIZE"
METADATA: dict[str, Any] = {f"fact {number}": f"{number:056}" for number in range(16)}
"""About as much metadata as an event of a shard has."""

_PARTITIONS = dg.DynamicPartitionsDefinition(name="shards")


@dg.asset(partitions_def=_PARTITIONS)
def shards() -> dg.MaterializeResult[None]:
    """An asset that does nothing but report events."""
    return dg.MaterializeResult(metadata=METADATA)


def run_all_partitions(instance: dg.DagsterInstance, server: int | None, keys: Sequence[str]) -> Usage:
    """Run all partitions once, and return the CPU of this process and of the database server."""
    job = dg.Definitions(assets=[shards]).resolve_implicit_global_asset_job_def()
    tags = {
        "dagster/asset_partition_range_start": keys[0],
        "dagster/asset_partition_range_end": keys[-1],
    }
    before = 0.0 if server is None else tree_cpu(server)
    cpu, started = time.process_time(), time.monotonic()
    done = job.execute_in_process(
        instance=instance, tags=tags, run_config={"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
    )
    wall = time.monotonic() - started
    cpu = time.process_time() - cpu
    after = 0.0 if server is None else tree_cpu(server)
    events = instance.get_records_for_run(done.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    assert len(events.records) == len(keys), len(events.records)
    return Usage(cpu + after - before, wall)


def measure(count: int, rounds: int) -> dict[tuple[str, int], list[Usage]]:
    """Measure runs, by the storage of the events and by the size of the batches."""
    keys = [f"shardId-{number:012}" for number in range(count)]
    runs: dict[tuple[str, int], list[Usage]] = {}
    previous = os.environ.pop(BATCH_SIZE, None)
    with ExitStack() as stack:
        stack.callback(os.environ.pop, BATCH_SIZE, None)
        instances: dict[str, tuple[dg.DagsterInstance, int | None]] = {}
        sqlite = stack.enter_context(tempfile.TemporaryDirectory())
        Path(sqlite, "dagster.yaml").touch()
        instances["SQLite"] = stack.enter_context(dg.DagsterInstance.from_config(sqlite)), None
        try:
            port, pid = stack.enter_context(postgresql())
        except FileNotFoundError:
            pass  # the report has no row for it
        else:
            home = stack.enter_context(tempfile.TemporaryDirectory())
            Path(home, "dagster.yaml").write_text(storage_on(port), encoding="utf-8")
            instances["PostgreSQL"] = stack.enter_context(dg.DagsterInstance.from_config(home)), pid
        for instance, _ in instances.values():
            instance.add_dynamic_partitions(str(_PARTITIONS.name), keys)
        for _ in range(rounds):
            for name, (instance, server) in instances.items():
                for size in BATCH_SIZES:
                    os.environ[BATCH_SIZE] = str(size)
                    runs.setdefault((name, size), []).append(run_all_partitions(instance, server, keys))
    if previous is not None:
        os.environ[BATCH_SIZE] = previous
    return runs


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    del full
    runs = measure(SHARDS, ROUNDS)
    rows = [
        [
            name,
            str(size) if size else "not set",
            Spread.of([usage.wall for usage in usages]).text(),
            Spread.of([usage.cpu for usage in usages]).text(),
        ]
        for (name, size), usages in runs.items()
    ]
    return Section(
        "Dagster's events, one by one or in batches",
        f"A run in this process over {SHARDS:,} partitions that does nothing but report {SHARDS:,} planned "
        f"materializations and {SHARDS:,} materializations. CPU is that of the process and of the database. "
        f"Median of {ROUNDS} rounds, with the lowest and the highest.\n\n"
        + markdown_table(["event storage", BATCH_SIZE, "wall-clock s", "CPU s"], rows),
    )
