"""boto3 to Parquet by hand: the loop, an Arrow table of each page, one file of the default codec."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.worker_protocol import Order, Read, take_orders
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


def read(order: Order) -> Read:
    """Read the stream into one file of the order's folder."""
    kinesis = client(order.url)
    records = size = 0
    with pq.ParquetWriter(Path(order.folder, "records.parquet"), SCHEMA) as writer:
        for shard_id in shard_ids(kinesis, order.stream):
            for page in pages(kinesis, order.stream, shard_id):
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
    return Read(records, size)


def prepare(order: Order) -> Callable[[], Read]:
    """Nothing is prepared."""
    return partial(read, order)


if __name__ == "__main__":
    take_orders(prepare)
