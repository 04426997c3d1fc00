"""CPU of taking KPL aggregates apart, beside the library that AWS publishes for it."""

from __future__ import annotations

import base64
import json
import random
import statistics
import subprocess
import time
from typing import TYPE_CHECKING

from benchmarks.harness.peer_environments import python_of, version_of
from benchmarks.harness.section import Section, table
from kinesis_assets.kinesis.records.aggregation import deaggregate
from kinesis_assets.kinesis.records.arrow import record_batch
from kinesis_assets.kinesis.records.record import Record
from kinesis_assets.testing import UserRecord, aggregate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROUNDS = 5
AGGREGATES = 200
SUB_RECORDS = 200
PAYLOAD_BYTES = 100
PEER = "aws-kinesis-agg"
WHOLE = ("0", str((1 << 128) - 1))
HALF = ("0", str((1 << 127) - 1))

_PEER_ROUND = """
import json, sys, time
from aws_kinesis_agg.deaggregator import deaggregate_records
records = [
    {"kinesis": {"kinesisSchemaVersion": "1.0", "partitionKey": "a", "sequenceNumber": "1",
                 "approximateArrivalTimestamp": 1.0, "data": data}, "eventVersion": "1.0"}
    for data in json.loads(sys.stdin.read())
]
times = []
for _ in range(int(sys.argv[1])):
    began = time.process_time()
    count = len(deaggregate_records(records))
    times.append((time.process_time() - began) / count)
print(json.dumps(times))
"""


def made(distinct_keys: int) -> list[bytes]:
    """Aggregates whose sub-records have partition keys out of so many."""
    chance = random.Random(7)
    return [
        aggregate(
            UserRecord(f"customer-{chance.randrange(distinct_keys)}", chance.randbytes(PAYLOAD_BYTES))
            for _ in range(SUB_RECORDS)
        )
        for _ in range(AGGREGATES)
    ]


def ours(aggregates: Sequence[bytes], hash_range: tuple[str, str]) -> float:
    """Median seconds of CPU for a sub-record, from the record to the Arrow batch."""
    records = [Record(str(number), 1.0, data, "a") for number, data in enumerate(aggregates)]

    def once() -> int:
        rows = [row for record in records for row in deaggregate(record, hash_range)]
        return int(record_batch("orders", "shardId-000000000000", rows).num_rows)

    return _median(once)


def _median(once: Callable[[], int]) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        count = once()
        times.append((time.process_time() - began) / count)
    return statistics.median(times)


def peers(aggregates: Sequence[bytes]) -> float:
    """The same for the peer, which gives Python objects and no batch; installed into a folder of its own."""
    given = json.dumps([base64.b64encode(data).decode() for data in aggregates])
    command = [python_of(PEER), "-c", _PEER_ROUND, str(ROUNDS)]
    done = subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True, text=True)
    return float(statistics.median(json.loads(done.stdout)))


def section(full: bool) -> Section:
    """Every kind of aggregate as a line of a table."""
    del full
    what = (
        f"CPU of one core from the record to the Arrow batch, for {SUB_RECORDS} sub-records of "
        f"{PAYLOAD_BYTES} bytes an aggregate, beside {version_of(PEER)}, which gives Python objects. "
        f"Median of {ROUNDS} rounds."
    )
    rows = []
    for keys, distinct in (("ten", 10), ("all distinct", 1_000_000)):
        aggregates = made(distinct)
        peer = peers(aggregates)
        for name, hash_range in (("all keys", WHOLE), ("half of them", HALF)):
            mine = ours(aggregates, hash_range)
            rows.append([keys, name, f"{1 / mine:,.0f}", f"{peer / mine:.1f}"])
    columns = ["partition keys", "shard's hash range", "sub-records a second", "times the peer's"]
    return Section("KPL aggregates", f"{what}\n\n{table(columns, rows)}")
