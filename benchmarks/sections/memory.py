"""Peak memory of one landing task over its idle memory, for large records and for full pages."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import botocore.config

from benchmarks.harness.measure import Spread, of_rounds
from benchmarks.harness.section import Goal, Section, Target, table
from kinesis_assets.ingest.shard_group import CALLS
from kinesis_assets.ingest.task import LandingJob, land_group
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.limits import Allowance, Bounds
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import ShardRange
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.storage import TableFolder
from kinesis_assets.testing import UserRecord, aggregate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MIB = 1 << 20
CALL_BYTES = 9 * MIB
MOST_MIB = 512
FULL_ROUNDS = 5
GOAL_CALLS = 64


@dataclass(frozen=True)
class Case:
    """A backlog: each of some shards holds the same records, one after the other.

    Attributes:
        name: What it is.
        record_bytes: Payload of a record, or of an aggregate's sub-records together.
        records: Records of a shard.
        sub_records: In each of them; 0 for plain records.
        shards: Shards of the stream.
    """

    name: str
    record_bytes: int
    records: int
    sub_records: int = 0
    shards: int = 64

    def data(self) -> bytes:
        """One record's payload."""
        if not self.sub_records:
            return bytes(self.record_bytes)
        part = bytes(self.record_bytes // self.sub_records)
        return aggregate(UserRecord(f"key-{number}", part) for number in range(self.sub_records))


CASES = [
    Case("10 MiB records", 10 * MIB - 100, 1),
    Case("1 MiB records", MIB - 100, 10),
    Case("pages of 10,000 records", 1_000, 10_000),
    Case("aggregates of 1 MiB, 10,000 sub-records", 1_000_000, 3, sub_records=10_000),
    Case("aggregates of 8 MiB, 300,000 sub-records", 3_000_000, 1, sub_records=300_000, shards=8),
]

FULL_CASES = [*CASES, Case("records of 1 byte", 1, 10_000)]


@contextmanager
def endpoint() -> Iterator[str]:
    """The embedded stream in a process of its own."""
    serve = "from kinesis_assets.emulator import serve; serve(0)"
    command = [sys.executable, "-u", "-c", serve]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def fill(url: str, case: Case) -> str:
    """Put a case's records; the stream's name."""
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
        in_a_call = max(1, min(500, CALL_BYTES // len(data)))
        for first in range(0, case.records, in_a_call):
            count = min(in_a_call, case.records - first)
            kinesis.put_records(StreamName=name, Records=[entry] * count)
    return name


def landed(url: str, stream: str) -> dict[str, float]:
    """Land a stream in this process; its rows, payload bytes and peak memory over idle, in MiB."""
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


def _peak_mib() -> float:
    """Of this process alone: what getrusage tells begins with the peak of whoever started it."""
    (told,) = (line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    return int(told.split()[1]) / 1024


def measure(cases: Sequence[Case] = CASES) -> list[dict[str, Any]]:
    """Every case, each landed by a process of its own; two at a time, since no time is measured."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(_measured, cases))


def _measured(case: Case) -> dict[str, Any]:
    with endpoint() as url:
        command = [sys.executable, "-m", "benchmarks.sections.memory", url, fill(url, case)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return asdict(case) | told


def section(full: bool) -> Section:
    """The cases as a table."""
    return told([measure(FULL_CASES) for _ in range(FULL_ROUNDS)] if full else [measure()])


def told(rounds: Sequence[Sequence[dict[str, Any]]]) -> Section:
    """What each round measured of the cases."""
    at_once = min(CALLS, CASES[0].shards)
    what = (
        f"One task lands a stream, {at_once} shards at once if it has so many: the peak of its resident "
        f"memory over what it has at rest. {of_rounds(len(rounds))}; the highest of all counts."
    )
    rows = [
        [
            alike[0]["name"],
            *(f"{alike[0][column]:,.0f}" for column in ("shards", "rows", "mib")),
            Spread.of([row["peak_mib"] for row in alike]).text(0),
        ]
        for alike in zip(*rounds, strict=True)
    ]
    worst = max((row for measured in rounds for row in measured), key=lambda row: row["peak_mib"])
    met = worst["peak_mib"] <= MOST_MIB and at_once >= GOAL_CALLS
    found = f"{worst['peak_mib']:,.0f} MiB, by {worst['name']} in {worst['shards']} shards; {at_once} at once"
    target = Target(Goal.PEAK_MEMORY, found, met)
    text = table(["backlog", "shards", "rows", "payload, MiB", "peak over idle, MiB"], rows)
    return Section("Memory of a landing task", f"{what}\n\n{text}", [target])


if __name__ == "__main__":
    print(json.dumps(landed(sys.argv[1], sys.argv[2])))  # noqa: T201  # the answer to `measure`
