"""Records as Arrow batches, with the columns that every reader of this package returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kinesis_assets.kinesis.records import columns
from kinesis_assets.kinesis.records.record import Records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kinesis_assets.kinesis.records.record import Record

RECORD_SCHEMA = pa.schema(
    [
        pa.field("stream", pa.string(), nullable=False),
        pa.field("shard_id", pa.string(), nullable=False),
        pa.field("sequence_number", pa.string(), nullable=False),
        pa.field("sub_sequence_number", pa.int64(), nullable=False),
        pa.field("partition_key", pa.string(), nullable=True),
        pa.field("data", pa.binary(), nullable=False),
        pa.field("approximate_arrival_timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("error", pa.string(), nullable=True),
    ]
)
"""One row for each record. `sub_sequence_number` is the index in the aggregate, from 0; it is 0 for a record
that is not part of one. `partition_key` is null if the producer set none, `error` if the record is sound."""


def record_batch(stream: str, shard_id: str, records: Sequence[Record]) -> pa.RecordBatch:
    """Return the records of one shard, in their order, as a batch of `RECORD_SCHEMA`."""
    if not isinstance(records, Records):
        records = Records.of(records)
    count = len(records)
    if records.subs is None:
        subs, errors = columns.same_integer(0, count), pa.nulls(count, pa.string())
    else:
        subs = columns.integers(records.subs)
        errors = columns.texts_or_nulls(records.errors or [None] * count)
    return pa.RecordBatch.from_arrays(
        [
            columns.same_text(stream, count),
            columns.same_text(shard_id, count),
            records.number_column,
            subs,
            records.key_column,
            records.data_column,
            _timestamps(records.arrival_seconds),
            errors,
        ],
        schema=RECORD_SCHEMA,
    )


def _timestamps(seconds: NDArray[np.float64]) -> pa.Array:
    """Return arrival times as a column, exact to the millisecond.

    The conversion is vectorized: a Python call for each record would double the cost of a batch.

    Args:
        seconds: Since the epoch.
    """
    microseconds = np.rint(seconds * 1000.0).astype(np.int64) * 1000
    buffers = [None, pa.py_buffer(microseconds)]
    return pa.Array.from_buffers(pa.timestamp("us", tz="UTC"), len(seconds), buffers)
