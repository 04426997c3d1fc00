"""What Dagster's own events cost a run of many shards, each stored alone or in batches.

Measured by `make bench FULL=1`.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from benchmarks.harness.measure import Spread, Usage, tree_cpu
from benchmarks.harness.section import Section, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROUNDS = 5
SHARDS = 250
BATCHES = (0, 250)
SIZE = "DAGSTER_EVENT_BATCH_SIZE"
METADATA: dict[str, Any] = {f"fact {number}": f"{number:056}" for number in range(16)}
"""About what an event tells of a shard."""

_PARTITIONS = dg.DynamicPartitionsDefinition(name="shards")


@dg.asset(partitions_def=_PARTITIONS)
def shards() -> dg.MaterializeResult[None]:
    """Nothing but its events."""
    return dg.MaterializeResult(metadata=METADATA)


@contextmanager
def postgresql() -> Iterator[tuple[str, int]]:
    """A server of its own on loopback: its URL and process. Root runs it as its user, for it refuses to.

    Raises:
        FileNotFoundError: It is not installed here.
    """
    on_path = shutil.which("initdb")
    found = [Path(on_path).parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found:
        raise FileNotFoundError("PostgreSQL's initdb is not here")
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if as_user:
            shutil.chown(folder, "postgres")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]

        def run(program: str, *arguments: str) -> None:
            command = [*as_user, str(found[-1] / program), "-D", str(folder / "data"), *arguments]
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=60)

        run("initdb", "-A", "trust", "-U", "dagster")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -k {folder}"
        run("pg_ctl", "-o", options, "-l", str(folder / "log"), "-w", "start")
        try:
            pid = int((folder / "data" / "postmaster.pid").read_text().split()[0])
            yield f"postgresql://dagster:-@127.0.0.1:{port}/postgres", pid
        finally:
            run("pg_ctl", "-m", "fast", "stop")


def run_of(instance: dg.DagsterInstance, server: int | None, keys: Sequence[str]) -> Usage:
    """One run over all partitions: CPU of this process and of the server."""
    job = dg.Definitions(assets=[shards]).resolve_implicit_global_asset_job_def()
    tags = {
        "dagster/asset_partition_range_start": keys[0],
        "dagster/asset_partition_range_end": keys[-1],
    }
    before = 0.0 if server is None else tree_cpu(server)
    cpu, began = time.process_time(), time.monotonic()
    done = job.execute_in_process(
        instance=instance, tags=tags, run_config={"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
    )
    wall = time.monotonic() - began
    cpu = time.process_time() - cpu
    after = 0.0 if server is None else tree_cpu(server)
    told = instance.get_records_for_run(done.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    assert len(told.records) == len(keys), len(told.records)
    return Usage(cpu + after - before, wall)


def measure(count: int, rounds: int) -> dict[tuple[str, int], list[Usage]]:
    """By where events are kept and the batch's size, each round's run."""
    keys = [f"shardId-{number:012}" for number in range(count)]
    runs: dict[tuple[str, int], list[Usage]] = {}
    kept = os.environ.pop(SIZE, None)
    with ExitStack() as stack:
        stack.callback(os.environ.pop, SIZE, None)
        instances: dict[str, tuple[dg.DagsterInstance, int | None]] = {}
        sqlite = stack.enter_context(tempfile.TemporaryDirectory())
        Path(sqlite, "dagster.yaml").touch()
        instances["SQLite"] = stack.enter_context(dg.DagsterInstance.from_config(sqlite)), None
        try:
            url, pid = stack.enter_context(postgresql())
        except FileNotFoundError:
            pass  # told by its absence
        else:
            home = stack.enter_context(tempfile.TemporaryDirectory())
            storage = f"storage: {{postgres: {{postgres_url: '{url}'}}}}"
            Path(home, "dagster.yaml").write_text(storage, encoding="utf-8")
            instances["PostgreSQL"] = stack.enter_context(dg.DagsterInstance.from_config(home)), pid
        for instance, _ in instances.values():
            instance.add_dynamic_partitions(str(_PARTITIONS.name), keys)
        for _ in range(rounds):
            for name, (instance, server) in instances.items():
                for size in BATCHES:
                    os.environ[SIZE] = str(size)
                    runs.setdefault((name, size), []).append(run_of(instance, server, keys))
    if kept is not None:
        os.environ[SIZE] = kept
    return runs


def section(full: bool) -> Section:
    """Of the report."""
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
        "Dagster's events, each alone or in batches",
        f"A run in this process over {SHARDS:,} partitions that does nothing: {SHARDS:,} events of what is "
        "planned, as many of what is done. CPU is of the process and the database. Median of "
        f"{ROUNDS} rounds, with the lowest and the highest.\n\n"
        + table(["kept in", SIZE, "wall s", "CPU s"], rows),
    )
