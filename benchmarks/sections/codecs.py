"""What each Parquet codec costs to write and to read, and how well it compresses."""

from __future__ import annotations

import io
import statistics
import time
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data.payloads import Payloads
from benchmarks.harness.section import Section, markdown_table
from benchmarks.harness.units import GB
from kinesis_assets.table.data_file import (
    DICTIONARIES,
    FILE_SCHEMA,
    NEW_FILES,
    REWRITTEN_FILES,
    STATISTICS,
)

RECORD_BYTES = 1000
GROUPS = 4
ROWS_PER_GROUP = 16_000
ROUNDS = 5
CODECS = [("none", None), ("snappy", None), ("lz4", None), ("zstd", 1), ("zstd", 3), ("zstd", 6)]


@dataclass(frozen=True)
class Cost:
    """What a codec costs.

    Attributes:
        name: The codec and its level.
        write: CPU seconds to write 10^9 bytes of record data.
        read: CPU seconds to read them.
        size: Compressed bytes for each byte of record data.
    """

    name: str
    write: float
    read: float
    size: float


def create_row_groups() -> list[pa.Table]:
    """Create row groups like those that a landing writes."""
    source, first = Payloads(), 1 << 185
    groups = []
    for group in range(GROUPS):
        numbers = range(first + group * ROWS_PER_GROUP, first + (group + 1) * ROWS_PER_GROUP)
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
        groups.append(pa.Table.from_pydict(columns, schema=FILE_SCHEMA))
    return groups


def measure(name: str, level: int | None, groups: list[pa.Table]) -> Cost:
    """Measure a codec in memory."""
    payload = sum(group.num_rows for group in groups) * RECORD_BYTES
    writes, reads, size = [], [], 0
    for _ in range(ROUNDS):
        sink = io.BytesIO()
        started = time.process_time()
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
        writes.append(time.process_time() - started)
        size = sink.tell()
        started = time.process_time()
        pq.read_table(pa.BufferReader(sink.getbuffer()))
        reads.append(time.process_time() - started)
    label = name if level is None else f"{name} level {level}"
    per_gb = GB / payload
    return Cost(label, statistics.median(writes) * per_gb, statistics.median(reads) * per_gb, size / payload)


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    del full
    groups = create_row_groups()
    costs = [measure(name, level, groups) for name, level in CODECS]
    (ours,) = (each for each in costs if each.name == NEW_FILES.name)
    rows = [
        [
            each.name,
            f"{each.write:.2f}",
            f"{each.read:.2f}",
            f"{each.size:.2f}",
            f"{each.size / ours.size:.2f}",
        ]
        for each in costs
    ]
    columns = ["codec", "write, CPU s/GB", "read, CPU s/GB", "bytes per byte of record data"]
    columns.append(f"relative to {NEW_FILES.name}")
    text = (
        f"Records of {RECORD_BYTES} bytes in row groups of {ROWS_PER_GROUP:,} rows are written to memory and "
        f"read back. Median of {ROUNDS} rounds. A landing writes {NEW_FILES.name}; the compaction of small "
        f"files writes {REWRITTEN_FILES.name} level {REWRITTEN_FILES.level}."
    )
    return Section("Codecs", f"{text}\n\n{markdown_table(columns, rows)}\n\n{_describe_levels(costs)}")


def _describe_levels(costs: list[Cost]) -> str:
    """Return the reason for level 3."""
    low, middle, high = (each for each in costs if each.name.startswith("zstd"))
    return (
        f"The output of zstd level 3 has {middle.size / low.size:.0%} of the size of level 1, for "
        f"{middle.write / low.write:.1f} times the CPU of writing. The output of level 6 has "
        f"{high.size / middle.size:.0%} of the size of level 3, for {high.write / middle.write:.1f} times "
        "the CPU. Compacted files are written once, and then stored and read many times."
    )
