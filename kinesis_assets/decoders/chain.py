"""Decoding of DataFrame rows. No row is lost or duplicated, and a row that fails has the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from kinesis_assets.decoders.decoder import Decoding, Undecodable
from kinesis_assets.decoders.spark_types import decoded_type, value_type
from kinesis_assets.errors import InvalidInput
from kinesis_assets.spark.arrow_steps import map_in_arrow
from kinesis_assets.spark.carried_column import carried, carry, is_in_order, with_carried

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from kinesis_assets.decoders.decoder import Decoder

BATCH_BYTES = 16 << 20
"""The decoded size of rows at which they are passed on to Spark."""

_ERROR_CHARACTERS = 500


def decode(*decoders: Decoder) -> Callable[[DataFrame], DataFrame]:
    """Create a function for `DataFrame.transform` that decodes the column `data`.

    The function returns all rows and columns of its input and adds these columns: `schema_id` (string), if
    one of the decoders has one, as `Glue` does, and `value`, which has the last decoder's type. If a row
    cannot be decoded, its `value` is null, its `data` is unchanged, and its `error` names the decoder that
    failed and the reason. A row that already has an `error` keeps it and is not decoded.

    Args:
        decoders: The decoders in the order in which they apply. All but the last must return bytes.

    Raises:
        InvalidInput: The decoders cannot be combined. The returned function raises it if the DataFrame lacks
            `data` (binary) or `error` (string) or already has one of the new columns, or if a decoder is
            invalid.
    """
    if not decoders:
        raise InvalidInput("decode needs at least one decoder")
    for decoder in decoders[:-1]:
        if decoder.spark_type is not None:
            raise InvalidInput(f"{decoder.name} returns a typed value; it must be the last decoder")
    has_schema_id = any(getattr(decoder, "has_schema_id", False) for decoder in decoders)
    added = ["schema_id", "value"] if has_schema_id else ["value"]

    def decoded(rows: DataFrame) -> DataFrame:
        _check_columns(rows, added)
        ready = [decoder.resolved() for decoder in decoders]
        last = ready[-1].spark_type
        spark_type = last if isinstance(last, DataType) else BinaryType()
        _, arrow_type = value_type(spark_type)
        types = {"error": StringType(), "schema_id": StringType(), "value": decoded_type(spark_type)}
        new = {name: StructField(name, type_) for name, type_ in types.items()}
        full, column = with_carried(rows), carried(rows)
        fields = [new.get(field.name, field) for field in full.schema] + [new[name] for name in added]

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return _decoded_batches(batches, ready, arrow_type, added)

        result = map_in_arrow(full, run, StructType(fields))
        return result if column is None else carry(result, column, in_order=is_in_order(rows))

    return decoded


def _check_columns(rows: DataFrame, added: Sequence[str]) -> None:
    types = {field.name: field.dataType for field in rows.schema.fields}
    if not isinstance(types.get("data"), BinaryType) or not isinstance(types.get("error"), StringType):
        raise InvalidInput(
            f"decode needs the columns data (binary) and error (string) of the raw table; the rows have "
            f"{', '.join(f'{name} ({type_.simpleString()})' for name, type_ in types.items())}"
        )
    existing = [name for name in rows.columns if name in added]
    if existing:
        raise InvalidInput(f"the rows already have a column {', '.join(existing)}; rename it first")


def _decoded_batches(
    batches: Iterator[pa.RecordBatch],
    decoders: Sequence[Decoder],
    arrow_type: pa.DataType,
    added: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    steps = [(decoder.name, decoder.make_step()) for decoder in decoders]
    for batch in batches:
        start = 0
        for decodings in _decodings(batch, steps):
            new = {"value": pa.array([each.value for each in decodings], arrow_type)}
            new["schema_id"] = pa.array([each.schema_id for each in decodings], pa.string())
            new["error"] = pa.array([each.error for each in decodings], pa.string())
            rows = batch.slice(start, len(decodings))
            start += len(decodings)
            names = rows.schema.names
            columns = [new["error"] if name == "error" else rows.column(name) for name in names]
            columns += [new[name] for name in added]
            yield pa.RecordBatch.from_arrays(columns, [*names, *added])


def _decodings(
    batch: pa.RecordBatch, steps: Sequence[tuple[str, Callable[[Decoding], None]]]
) -> Iterator[list[Decoding]]:
    """Decode the rows of a batch in order. Yields lists of about `BATCH_BYTES`."""
    decodings = []
    size = 0
    for data, error in zip(batch["data"], batch["error"], strict=True):
        decoding = Decoding(None if error.is_valid else data.as_py(), error=error.as_py())
        size += _decode(decoding, steps)
        decodings.append(decoding)
        if size >= BATCH_BYTES:
            yield decodings
            decodings = []
            size = 0
    if decodings:
        yield decodings


def _decode(decoding: Decoding, steps: Sequence[tuple[str, Callable[[Decoding], None]]]) -> int:
    """Apply the steps to a record. Returns its largest size on the way, in bytes."""
    if decoding.value is None:
        decoding.error = "data is null" if decoding.error is None else decoding.error
        return 0
    size = 0
    for name, step in steps:
        size = max(size, len(decoding.value))
        try:
            step(decoding)
        except Undecodable as error:
            decoding.value = None
            decoding.error = f"{name}: {error}"[:_ERROR_CHARACTERS]
            break
    if isinstance(decoding.value, bytes):
        size = max(size, len(decoding.value))
    return size
