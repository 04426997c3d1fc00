"""Rows of a raw table, and their decoding in this process, as a task does it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kinesis_assets.decoders.chain import _decoded_batches, _document_batches
from kinesis_assets.decoders.spark_types import value_type
from kinesis_assets.table.data_file import TABLE_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

ARRIVAL = datetime(2026, 1, 31, 12, tzinfo=UTC)


def raw_table(data: Sequence[bytes], errors: Sequence[str | None] | None = None) -> pa.Table:
    """Return rows with this data and these errors."""
    columns: dict[str, list[Any]] = {
        "stream": ["orders"] * len(data),
        "shard_id": ["shardId-000000000000"] * len(data),
        "sequence_number": [str(number) for number in range(len(data))],
        "sub_sequence_number": [0] * len(data),
        "partition_key": ["k"] * len(data),
        "data": list(data),
        "approximate_arrival_timestamp": [ARRIVAL] * len(data),
        "arrival_date": [ARRIVAL.date()] * len(data),
        "batch_id": [7] * len(data),
        "error": list(errors or [None] * len(data)),
    }
    return pa.table({name: columns[name] for name in TABLE_SCHEMA.names}, schema=TABLE_SCHEMA)


def decoded(data: Sequence[bytes], *decoders: Any) -> list[dict[str, Any]]:
    """Decode records. A type in DDL needs a Spark session, which parses it; see `spark_type`."""
    ready = [decoder.resolved() for decoder in decoders]
    arrow_type = pa.binary() if ready[-1].spark_type is None else value_type(ready[-1].spark_type)[1]
    batches = iter(raw_table(data).to_batches())
    added = ["schema_id", "value"]
    if any(getattr(each, "multiplies", False) for each in ready):
        done = _document_batches(batches, ready, arrow_type, ["document_number", *added], None)
    else:
        done = _decoded_batches(batches, ready, arrow_type, added)
    return [row for batch in done for row in batch.to_pylist(maps_as_pydicts="strict")]
