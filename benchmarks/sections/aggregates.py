"""CPU of de-aggregating KPL aggregates, compared with the library that AWS publishes for it."""

from __future__ import annotations

import base64
import json
import random
import statistics
import subprocess
import time
from typing import TYPE_CHECKING

from benchmarks.harness.peer_environments import python_of, version_of
from benchmarks.harness.section import Section, markdown_table
from kinesis_assets.kinesis.records.aggregation import deaggregate
from kinesis_assets.kinesis.records.records import Record, record_batch
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
    started = time.process_time()
    count = len(deaggregate_records(records))
    times.append((time.process_time() - started) / count)
print(json.dumps(times))
"""


def create_aggregates(distinct_keys: int) -> list[bytes]:
    """Create aggregates whose sub-records have partition keys from a set of this size."""
    source = random.Random(7)
    return [
        aggregate(
            UserRecord(f"customer-{source.randrange(distinct_keys)}", source.randbytes(PAYLOAD_BYTES))
            for _ in range(SUB_RECORDS)
        )
        for _ in range(AGGREGATES)
    ]


def measure_ours(aggregates: Sequence[bytes], hash_range: tuple[str, str]) -> float:
    """Return the median CPU seconds per sub-record, from the record to the Arrow batch."""
    records = [Record(str(number), 1.0, data, "a") for number, data in enumerate(aggregates)]

    def work() -> int:
        rows = [row for record in records for row in deaggregate(record, hash_range)]
        return int(record_batch("orders", "shardId-000000000000", rows).num_rows)

    return _median(work)


def _median(work: Callable[[], int]) -> float:
    times = []
    for _ in range(ROUNDS):
        started = time.process_time()
        count = work()
        times.append((time.process_time() - started) / count)
    return statistics.median(times)


def measure_peer(aggregates: Sequence[bytes]) -> float:
    """Return the same for the peer, which returns Python objects instead of a batch."""
    payloads = json.dumps([base64.b64encode(data).decode() for data in aggregates])
    command = [python_of(PEER), "-c", _PEER_ROUND, str(ROUNDS)]
    done = subprocess.run(command, input=payloads, stdout=subprocess.PIPE, check=True, text=True)
    return float(statistics.median(json.loads(done.stdout)))


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    del full
    text = (
        "Sub-records per second of one core, from the record to the Arrow batch, for aggregates of "
        f"{SUB_RECORDS} sub-records with {PAYLOAD_BYTES} bytes each. The peer is {version_of(PEER)}, which "
        f"returns Python objects. Median of {ROUNDS} rounds."
    )
    rows = []
    for keys, distinct in (("ten", 10), ("all distinct", 1_000_000)):
        aggregates = create_aggregates(distinct)
        peer = measure_peer(aggregates)
        for name, hash_range in (("all keys", WHOLE), ("half of them", HALF)):
            ours = measure_ours(aggregates, hash_range)
            rows.append([keys, name, f"{1 / ours:,.0f}", f"{peer / ours:.1f}"])
    columns = ["partition keys", "shard's hash range", "sub-records per second", "relative to the peer"]
    return Section("KPL aggregates", f"{text}\n\n{markdown_table(columns, rows)}")
