"""Peak memory of one landing task above its idle memory, and of a step of a derived table.

    python -m benchmarks.sections.memory URL STREAM
    python -m benchmarks.sections.memory TABLE

lands a stream in this process, or upserts the documents of a raw table, and prints the peak memory as JSON.
"""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import tempfile
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import botocore.config

from benchmarks.data.one_record_commits import create_table
from benchmarks.data.order_tables import land
from benchmarks.harness.peak_memory import peaks_of_tree
from benchmarks.harness.section import Goal, Section, Target, markdown_table
from benchmarks.harness.spread import Spread, describe_rounds
from benchmarks.harness.units import MIB
from kinesis_assets.ingest.task import LandingJob, land_group
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import Allowance, Bounds, ShardRange
from kinesis_assets.kinesis.settings import CONNECTIONS, ClientSettings
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.store.storage import TableFolder
from kinesis_assets.testing import UserRecord, aggregate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

CALL_BYTES = 9 * MIB
MAX_MIB = 512
FULL_ROUNDS = 5
MAX_STEP_MIB = 3_072
GOAL_CALLS = 64
"""Number of shards that a task must read at once for the target to count."""


@dataclass(frozen=True)
class Case:
    """A backlog: every shard contains the same record several times.

    Attributes:
        name: Its description.
        record_bytes: Bytes of a record's payload, or of all payloads in an aggregate.
        records: Records in each shard.
        sub_records: Records in an aggregate; 0 for records that are not aggregated.
        keys: Partition keys in an aggregate; 0 if each of its records has its own.
        shards: Shards of the stream.
    """

    name: str
    record_bytes: int
    records: int
    sub_records: int = 0
    keys: int = 0
    shards: int = 64

    def data(self) -> bytes:
        """Return the data of a record."""
        if not self.sub_records:
            return bytes(self.record_bytes)
        part = bytes(self.record_bytes // self.sub_records)
        keys = self.keys or self.sub_records
        return aggregate(UserRecord(f"key-{number % keys}", part) for number in range(self.sub_records))


CASES = [
    Case("10 MiB records", 10 * MIB - 100, 1),
    Case("1 MiB records", MIB - 100, 10),
    Case("pages of 10,000 records", 1_000, 10_000),
    Case("aggregates of 1 MiB, 10,000 sub-records", 1_000_000, 3, sub_records=10_000),
    Case("aggregates of 8 MiB, 300,000 sub-records", 3_000_000, 1, sub_records=300_000, shards=8),
    Case(
        "aggregates of 10 MiB, 1,490,000 sub-records", 1_490_000, 1, sub_records=1_490_000, keys=1, shards=8
    ),
]

FULL_CASES = [*CASES, Case("records of 1 byte", 1, 10_000)]


@contextmanager
def endpoint() -> Iterator[str]:
    """Run the embedded stream in a process of its own until the end of the block."""
    serve = "from kinesis_assets.emulator import serve; serve(0, print)"
    command = [sys.executable, "-u", "-c", serve]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def fill(url: str, case: Case) -> str:
    """Create a stream with the records of a case, and return its name."""
    config = botocore.config.Config(read_timeout=120)
    kinesis: Any = boto3.client("kinesis", endpoint_url=url, region_name="us-east-1", config=config)
    name = f"records-{case.record_bytes}-{case.sub_records}"
    kinesis.create_stream(StreamName=name, ShardCount=case.shards)
    summary = kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
    kinesis.update_max_record_size(StreamARN=summary["StreamARN"], MaxRecordSizeInKiB=10_240)
    data = case.data()
    for shard in kinesis.list_shards(StreamName=name)["Shards"]:
        entry = {
            "Data": data,
            "PartitionKey": "k",
            "ExplicitHashKey": shard["HashKeyRange"]["StartingHashKey"],
        }
        per_call = max(1, min(500, CALL_BYTES // len(data)))
        for first in range(0, case.records, per_call):
            count = min(per_call, case.records - first)
            kinesis.put_records(StreamName=name, Records=[entry] * count)
    return name


def landed(url: str, stream: str) -> dict[str, float]:
    """Land a stream in this process, and return its rows, payload and peak memory above idle, in MiB."""
    client = StreamClient(stream, ClientSettings("us-east-1", url))
    listing = client.listing()
    bounds = Bounds(until=datetime.now(UTC) + timedelta(hours=1))
    ranges = [
        ShardRange(shard.shard_id, Position(PositionKind.TRIM_HORIZON), bounds, shard.hash_range)
        for shard in listing.shards
    ]
    with tempfile.TemporaryDirectory() as folder:
        job = LandingJob(stream, client.settings, TableFolder.at(folder), new_id(), math.inf)
        idle = _peak_mib()
        landing = land_group(job, ranges, Allowance())
    assert not any(shard.error for shard in landing.shards)
    return {"rows": landing.rows, "mib": landing.bytes / MIB, "peak_mib": _peak_mib() - idle}


@dataclass(frozen=True)
class Documents:
    """JSON documents in a raw table, each with another key.

    Attributes:
        name: Their description.
        compressible: Whether their text repeats itself.
        count: Their number.
    """

    name: str
    compressible: bool
    count: int = 64

    def land(self, uri: str) -> None:
        """Create a raw table with the documents."""
        raw = create_table(uri)
        for first in range(0, self.count, _LANDED):
            land(raw, [self._document(number) for number in range(first, min(first + _LANDED, self.count))])

    def _document(self, number: int) -> bytes:
        size = 10 * MIB - 100
        text = "a quick brown fox " * (size // 18)
        if not self.compressible:
            text = b64encode(random.Random(number).randbytes(size * 3 // 4)).decode()
        return json.dumps({"id": number, "at": number, "text": text}).encode()


_LANDED = 4
"""Documents in a commit of the raw table."""

DOCUMENTS = [
    Documents("compressible documents", compressible=True),
    Documents("incompressible documents", compressible=False),
]


def upserted(uri: str) -> dict[str, float]:
    """Upsert the documents of a raw table, and return the rows and the peak memory in MiB."""
    # A landing, whose memory is measured too, imports none of these.
    from kinesis_assets.decoders.projection import from_json  # noqa: PLC0415
    from kinesis_assets.derive.derivation import Derivation, Upsert  # noqa: PLC0415
    from kinesis_assets.derive.derived_table import DerivedTable  # noqa: PLC0415
    from kinesis_assets.derive.run import derive  # noqa: PLC0415
    from kinesis_assets.spark.session import start_session  # noqa: PLC0415

    def documents(rows: DataFrame) -> DataFrame:
        return from_json(rows, "id INT, at INT, text STRING")

    rows = 0
    with tempfile.TemporaryDirectory() as folder, peaks_of_tree(os.getpid()) as peaks:
        spark = start_session({})
        derivation = Derivation(uri, documents, Upsert(("id",), ("at",)))
        for commit in derive(spark, DerivedTable(folder), derivation):
            rows += commit.rows
    return {"rows": rows, "peak_mib": peaks[""]}


def _peak_mib() -> float:
    """Return the peak of this process alone; that of getrusage includes the process that started it."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    return int(line.split()[1]) / 1024


def measure(cases: Sequence[Case] = CASES) -> list[dict[str, Any]]:
    """Measure each case in a process of its own; two run at a time, because no time is measured."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(_measure, cases))


def _measure(case: Case) -> dict[str, Any]:
    with endpoint() as url:
        command = [sys.executable, "-m", "benchmarks.sections.memory", url, fill(url, case)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    measured: dict[str, Any] = json.loads(done.stdout)
    return asdict(case) | measured


def measure_steps(cases: Sequence[Documents] = DOCUMENTS) -> list[dict[str, Any]]:
    """Measure an upsert of the documents of each case, in a process of its own."""
    return [_measure_step(case) for case in cases]


def _measure_step(case: Documents) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        case.land(folder)
        command = [sys.executable, "-m", "benchmarks.sections.memory", folder]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    measured: dict[str, Any] = json.loads(done.stdout)
    assert measured["rows"] == case.count
    return asdict(case) | measured


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    rounds = [measure(FULL_CASES) for _ in range(FULL_ROUNDS)] if full else [measure()]
    landing, steps = describe(rounds), describe_steps(measure_steps())
    return Section(
        landing.title, f"{landing.markdown}\n\n{steps.markdown}", [*landing.targets, *steps.targets]
    )


def describe_steps(measured: Sequence[dict[str, Any]]) -> Section:
    """Return the part of the section about upserts of large documents."""
    text = (
        "A derived table with a key consumes JSON documents of 10 MiB, each a row, in one step of a local "
        "session with its default settings, where Java has 1 GiB. The table shows the peak of the resident "
        "memory of the process, of Java and of the Python workers, together."
    )
    rows = [[each["name"], f"{each['rows']:,}", f"{each['peak_mib']:,.0f}"] for each in measured]
    worst = max(measured, key=lambda each: each["peak_mib"])
    target = Target(
        Goal.STEP_MEMORY,
        f"{worst['peak_mib']:,.0f} MiB ({worst['name']})",
        worst["peak_mib"] <= MAX_STEP_MIB,
    )
    results = markdown_table(["documents", "rows", "peak, MiB"], rows)
    return Section("Memory of a step", f"{text}\n\n{results}", [target])


def describe(rounds: Sequence[Sequence[dict[str, Any]]]) -> Section:
    """Return the part of the section about landings, for some rounds of all cases."""
    at_once = min(CONNECTIONS, CASES[0].shards)
    text = (
        f"One task lands a stream and reads up to {at_once} shards at once. The table shows the peak of its "
        f"resident memory above that of the idle process. {describe_rounds(len(rounds))}; the target counts "
        "the highest."
    )
    rows = [
        [
            same_case[0]["name"],
            *(f"{same_case[0][column]:,.0f}" for column in ("shards", "rows", "mib")),
            Spread.of([row["peak_mib"] for row in same_case]).text(0),
        ]
        for same_case in zip(*rounds, strict=True)
    ]
    worst = max((row for cases in rounds for row in cases), key=lambda row: row["peak_mib"])
    met = worst["peak_mib"] <= MAX_MIB and at_once >= GOAL_CALLS
    measured = (
        f"{worst['peak_mib']:,.0f} MiB ({worst['name']} in {worst['shards']} shards); {at_once} at once"
    )
    target = Target(Goal.PEAK_MEMORY, measured, met)
    results = markdown_table(["backlog", "shards", "rows", "payload, MiB", "peak above idle, MiB"], rows)
    return Section("Memory", f"{text}\n\n{results}", [target])


if __name__ == "__main__":
    # Read by `measure` and `measure_steps`.
    print(json.dumps(landed(*sys.argv[1:]) if sys.argv[2:] else upserted(sys.argv[1])))  # noqa: T201
