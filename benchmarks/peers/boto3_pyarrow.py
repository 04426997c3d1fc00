"""boto3 to Parquet: an Arrow table for each page, written to one file with the default codec."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.worker_protocol import ReadRequest, ReadResult, serve_requests
from benchmarks.peers.boto3_calls import client, pages, shard_ids

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = pa.schema(
    {
        "shard_id": pa.string(),
        "sequence_number": pa.string(),
        "partition_key": pa.string(),
        "arrived": pa.timestamp("ms", tz="UTC"),
        "data": pa.binary(),
    }
)


def read(request: ReadRequest) -> ReadResult:
    """Read the stream of a request into one file in its folder."""
    kinesis = client(request.url)
    records = size = 0
    with pq.ParquetWriter(Path(request.folder, "records.parquet"), SCHEMA) as writer:
        for shard_id in shard_ids(kinesis, request.stream):
            for page in pages(kinesis, request.stream, shard_id):
                columns = [
                    [shard_id] * len(page),
                    [record["SequenceNumber"] for record in page],
                    [record["PartitionKey"] for record in page],
                    [record["ApproximateArrivalTimestamp"] for record in page],
                    [record["Data"] for record in page],
                ]
                arrays = [pa.array(values, kind) for values, kind in zip(columns, SCHEMA.types, strict=True)]
                writer.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA))
                records += len(page)
                size += sum(len(record["Data"]) for record in page)
    return ReadResult(records, size)


def prepare(request: ReadRequest) -> Callable[[], ReadResult]:
    """Return the work; there is nothing to prepare."""
    return partial(read, request)


if __name__ == "__main__":
    serve_requests(prepare)
