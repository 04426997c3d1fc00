"""What each codec costs to write and to read, and what it leaves of the records' bytes."""

from __future__ import annotations

import io
import statistics
import time
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data.payloads import Payloads
from benchmarks.harness.measure import GB
from benchmarks.harness.section import Section, table
from kinesis_assets.table.data_file import CODEC, DICTIONARIES, FILE_SCHEMA, STATISTICS

RECORD_BYTES = 1000
GROUPS = 4
ROWS_IN_A_GROUP = 16_000
ROUNDS = 5
CODECS = [("none", None), ("snappy", None), ("lz4", None), ("zstd", 1), ("zstd", 3), ("zstd", 6)]


@dataclass(frozen=True)
class Cost:
    """Of one codec: CPU seconds for 10^9 bytes of record data, written and read; bytes left of each byte."""

    name: str
    write: float
    read: float
    left: float


def rows() -> list[pa.Table]:
    """Row groups as a landing writes them."""
    source, first = Payloads(), 1 << 185
    made = []
    for group in range(GROUPS):
        numbers = range(first + group * ROWS_IN_A_GROUP, first + (group + 1) * ROWS_IN_A_GROUP)
        count = len(numbers)
        columns = {
            "stream": ["orders"] * count,
            "shard_id": ["shardId-000000000000"] * count,
            "sequence_number": list(map(str, numbers)),
            "sub_sequence_number": [0] * count,
            "partition_key": [f"key-{number % 5000}" for number in numbers],
            "data": [source.payload(RECORD_BYTES) for _ in numbers],
            "approximate_arrival_timestamp": [datetime(2026, 11, 1, tzinfo=UTC)] * count,
            "batch_id": [1] * count,
            "error": [None] * count,
        }
        made.append(pa.Table.from_pydict(columns, schema=FILE_SCHEMA))
    return made


def cost(name: str, level: int | None, groups: list[pa.Table]) -> Cost:
    """Measure one codec, in memory."""
    payload = sum(group.num_rows for group in groups) * RECORD_BYTES
    writes, reads, size = [], [], 0
    for _ in range(ROUNDS):
        sink = io.BytesIO()
        began = time.process_time()
        with pq.ParquetWriter(
            sink,
            FILE_SCHEMA,
            compression=name,
            compression_level=level,
            use_dictionary=DICTIONARIES,
            write_statistics=STATISTICS,
        ) as writer:
            for group in groups:
                writer.write_table(group)
        writes.append(time.process_time() - began)
        size = sink.tell()
        began = time.process_time()
        pq.read_table(pa.BufferReader(sink.getbuffer()))
        reads.append(time.process_time() - began)
    label = name if level is None else f"{name} of level {level}"
    per_gb = GB / payload
    return Cost(label, statistics.median(writes) * per_gb, statistics.median(reads) * per_gb, size / payload)


def section(full: bool) -> Section:
    """The codecs beside each other."""
    del full
    groups = rows()
    costs = [cost(name, level, groups) for name, level in CODECS]
    (ours,) = (each for each in costs if each.name == CODEC)
    lines = [
        [
            each.name,
            f"{each.write:.2f}",
            f"{each.read:.2f}",
            f"{each.left:.2f}",
            f"{each.left / ours.left:.2f}",
        ]
        for each in costs
    ]
    head = ["codec", "write, CPU s/GB", "read, CPU s/GB", "bytes for a byte of record data", f"of {CODEC}'s"]
    what = (
        f"Records of {RECORD_BYTES} bytes in row groups of {ROWS_IN_A_GROUP:,}, written to memory and read "
        f"back whole. Median of {ROUNDS} rounds. Landing writes {CODEC}, the compaction of small files zstd "
        "of level 3."
    )
    return Section("Codecs", f"{what}\n\n{table(head, lines)}\n\n{_about_levels(costs)}")


def _about_levels(costs: list[Cost]) -> str:
    """Why level 3."""
    low, middle, high = (each for each in costs if each.name.startswith("zstd"))
    return (
        f"{middle.name.capitalize()} leaves {middle.left / low.left:.0%} of what level 1 leaves, for "
        f"{middle.write / low.write:.1f} times its CPU; level 6 {high.left / middle.left:.0%} of what level "
        f"3 leaves, for {high.write / middle.write:.1f} times its CPU. What is compacted is written once, "
        "and kept and read from then on."
    )
