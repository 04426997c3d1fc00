"""A comparison of a stream with the table of another system: what it finds, and its peak memory."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import convert_to_deltalake

from benchmarks.harness.paths import ROOT
from benchmarks.harness.peak_memory import peaks_of_tree
from benchmarks.harness.section import Goal, Section, Target
from benchmarks.harness.single_process import REGION
from benchmarks.servers.replay_client import replay_server
from benchmarks.servers.replay_streams import StreamSpec
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.settings import ClientSettings

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence

    from benchmarks.servers.replay_client import ReplayServer
    from kinesis_assets.kinesis.records.records import Record

FULL = StreamSpec("compared", shards=64, pages=16, page_records=10_000, record_bytes=100)
SHORT = StreamSpec("compared", shards=64, pages=1, page_records=10_000, record_bytes=100)
KINDS = ("missing", "doubled", "different", "extra")
PLANTED = 10
MAX_MIB = 3_072


@dataclass(frozen=True)
class Comparison:
    """A comparison.

    Attributes:
        records: Records of the stream.
        found: The counts by kind.
        seconds: Wall-clock time, including the start of all processes.
        peaks: Peak memory in MiB by the name of a program, and of all together under "".
    """

    records: int
    found: dict[str, int]
    seconds: float
    peaks: Counter[str]

    @property
    def is_right(self) -> bool:
        """Whether it found what was planted, and nothing else."""
        return self.found == dict.fromkeys(KINDS, PLANTED)


def measure(server: ReplayServer, spec: StreamSpec) -> Comparison:
    """Compare a stream with a Delta table that has all of its records but for planted differences.

    Raises:
        RuntimeError: The command failed; the message contains the end of its output.
    """
    server.create(spec)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "table")
        write_table(StreamClient(spec.name, ClientSettings(REGION, server.url)), spec, table)
        measured = _compare(server.url, spec, table)
    server.delete(spec.name)
    return measured


def write_table(client: StreamClient, spec: StreamSpec, table: Path) -> None:
    """Write the table of another system, with a file for each shard."""
    table.mkdir()
    places = random.Random(0).sample(range(spec.records), PLANTED * len(KINDS))
    planted = {place: KINDS[number % len(KINDS)] for number, place in enumerate(places)}
    for number, shard in enumerate(client.list_shards()):
        with pq.ParquetWriter(table / f"{shard.shard_id}.parquet", _SCHEMA) as writer:
            first = number * spec.shard_records
            for records in _pages(client, shard.shard_id):
                kinds = [planted.get(place) for place in range(first, first + len(records))]
                writer.write_table(_rows(shard.shard_id, records, kinds))
                first += len(records)
    convert_to_deltalake(str(table))


_SCHEMA = pa.schema({"shard": pa.string(), "number": pa.string(), "payload": pa.binary()})


def _pages(client: StreamClient, shard_id: str) -> Iterator[Sequence[Record]]:
    iterator: str | None = client.shard_iterator(shard_id, Position(PositionKind.TRIM_HORIZON))
    while iterator is not None:
        page, _ = client.get_records(iterator, 10_000)
        yield page.records
        iterator = page.next_shard_iterator if page.millis_behind_latest else None


def _rows(shard_id: str, records: Sequence[Record], kinds: Sequence[str | None]) -> pa.Table:
    rows = []
    for record, kind in zip(records, kinds, strict=True):
        row = (record.sequence_number, record.data)
        if kind == "different":
            rows.append((row[0], row[1] + b" "))
        elif kind != "missing":
            rows.append(row)
        if kind == "doubled":
            rows.append(row)
        elif kind == "extra":
            rows.append((str(int(row[0]) - 1), row[1]))
    numbers, payloads = ([*column] for column in zip(*rows, strict=True))
    return pa.table([[shard_id] * len(rows), numbers, payloads], schema=_SCHEMA)


def _compare(url: str, spec: StreamSpec, table: Path) -> Comparison:
    options = {
        "--stream": spec.name,
        "--endpoint-url": url,
        "--region": REGION,
        "--with": str(table),
        "--value": "payload",
    }
    command = [str(Path(sys.executable).with_name("kinesis-assets")), "compare", "--json"]
    command += ["--key", "shard", "--key", "number", *(word for pair in options.items() for word in pair)]
    started = time.monotonic()
    with (
        subprocess.Popen(
            command, cwd=ROOT, env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process,
        peaks_of_tree(process.pid) as peaks,
    ):
        out, error = process.communicate()
    if not out:
        raise RuntimeError(f"kinesis-assets compare exited with {process.returncode}: {error[-500:]}")
    rows = [json.loads(line) for line in out.splitlines()]
    assert sum(row["records"] for row in rows) == spec.records
    found = {kind: sum(row[kind] for row in rows) for kind in KINDS}
    return Comparison(spec.records, found, time.monotonic() - started, peaks)


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    with replay_server() as server:
        measured = measure(server, FULL if full else SHORT)
    return Section("Comparison with another table", describe(measured), [target(measured)])


def describe(measured: Comparison) -> str:
    """Return the text of the report."""
    peaks = ", ".join(f"{name} {mib:,.0f} MiB" for name, mib in sorted(measured.peaks.items()) if name)
    found = ", ".join(f"{count} {kind}" for kind, count in measured.found.items())
    return (
        f"`kinesis-assets compare` over {measured.records:,} records in {FULL.shards} shards, in a local "
        f"session with its default settings, beside a Delta table in which {PLANTED} rows are missing, "
        f"{PLANTED} are doubled, {PLANTED} have another payload and {PLANTED} have no record. It finds "
        f"{found} in {measured.seconds:,.0f} s. The peaks of the resident memory by program: {peaks}."
    )


def target(measured: Comparison) -> Target:
    """Return the result for the goal."""
    peak = measured.peaks[""]
    found = "all found" if measured.is_right else f"found {measured.found}"
    return Target(
        Goal.COMPARISON_MEMORY,
        f"{peak:,.0f} MiB with {measured.records:,} records, {found}",
        measured.is_right and peak <= MAX_MIB,
    )
