"""Decoding of DataFrame rows by a chain of steps. A row that fails has the reason, and none is lost.

Without a step that splits records, each row remains one. Otherwise each document of a record becomes a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructField, StructType

from kinesis_assets.decoders.decoder import Decoding, Undecodable
from kinesis_assets.decoders.json_paths import Only
from kinesis_assets.decoders.spark_types import decoded_type, value_type
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.ddl import DOCUMENT_NUMBER
from kinesis_assets.spark.arrow_steps import map_in_arrow
from kinesis_assets.spark.carried_column import carried, carry, is_in_order, with_carried

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from kinesis_assets.decoders.decoder import Decoder, Step

_Steps = Sequence[tuple[str, "Step"]]

BATCH_BYTES = 16 << 20
"""The decoded size of rows at which they are passed on to Spark."""

_ROW_BYTES = 1 << 10
"""About the size of a document's row in Python, without its data."""

_NUMBER_DIGITS = 10
"""Those of the greatest number with 32 bits."""


def decode(*decoders: Decoder) -> Callable[[DataFrame], DataFrame]:
    """Create a function for `DataFrame.transform` that decodes the column `data`.

    The function returns all rows and columns of its input and adds these columns: `schema_id` (string), if
    one of the decoders has one, as `Glue` does, and `value`, which has the last decoder's type. If a row
    cannot be decoded, its `value` is null, its `data` is unchanged, and its `error` names the decoder that
    failed and the reason. A row that already has an `error` keeps it and is not decoded.

    If one of the decoders makes several documents of a record, or none, each document is a row, whose `data`
    are its own bytes, and whose `document_number` (int) is its place in the record, from 0. It is null for a
    record that fails as a whole. `Only` leaves out rows.

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
    multiplies = any(getattr(decoder, "multiplies", False) for decoder in decoders)
    added = [*["schema_id"] * has_schema_id, *[DOCUMENT_NUMBER] * multiplies, "value"]

    def decoded(rows: DataFrame) -> DataFrame:
        _check_columns(rows, added)
        ready = [decoder.resolved() for decoder in decoders]
        last = ready[-1].spark_type
        spark_type = last if isinstance(last, DataType) else BinaryType()
        _, arrow_type = value_type(spark_type)
        types = {
            "error": StringType(),
            "schema_id": StringType(),
            DOCUMENT_NUMBER: IntegerType(),
            "value": decoded_type(spark_type),
        }
        new = {name: StructField(name, type_) for name, type_ in types.items()}
        full, column = with_carried(rows), carried(rows)
        fields = [new.get(field.name, field) for field in full.schema] + [new[name] for name in added]

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for decoder in ready:
                if isinstance(decoder, Only):
                    batches = map(decoder.filtered, batches)
            if multiplies:
                return _document_batches(batches, ready, arrow_type, added, column)
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
            rows = batch.slice(start, len(decodings))
            start += len(decodings)
            yield _with_columns(rows, _columns(decodings, arrow_type), rows.schema.names, added)


def _columns(decodings: Sequence[Decoding], arrow_type: pa.DataType) -> dict[str, pa.Array]:
    return {
        "value": pa.array([each.value for each in decodings], arrow_type),
        "schema_id": pa.array([each.schema_id for each in decodings], pa.string()),
        "error": pa.array([each.error for each in decodings], pa.string()),
    }


def _with_columns(
    rows: pa.RecordBatch, new: Mapping[str, pa.Array], names: Sequence[str], added: Sequence[str]
) -> pa.RecordBatch:
    """Return rows with some columns, of which new ones replace theirs, and with added ones."""
    columns = [new[name] if name in new else rows.column(name) for name in names]
    return pa.RecordBatch.from_arrays([*columns, *(new[name] for name in added)], [*names, *added])


def _decodings(batch: pa.RecordBatch, steps: _Steps) -> Iterator[list[Decoding]]:
    """Decode the rows of a batch in order. Yields lists of about `BATCH_BYTES`."""
    decodings = []
    size = 0
    for data, error in zip(batch["data"], batch["error"].to_pylist(), strict=True):
        decoding = Decoding(data.as_py() if error is None else None, error=error)
        size += _decode(decoding, steps)
        decodings.append(decoding)
        if size >= BATCH_BYTES:
            yield decodings
            decodings = []
            size = 0
    if decodings:
        yield decodings


def _decode(decoding: Decoding, steps: _Steps) -> int:
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
            decoding.fail(name, error)
            break
    if isinstance(decoding.value, bytes):
        size = max(size, len(decoding.value))
    return size


def _document_batches(
    batches: Iterator[pa.RecordBatch],
    decoders: Sequence[Decoder],
    arrow_type: pa.DataType,
    added: Sequence[str],
    order: str | None,
) -> Iterator[pa.RecordBatch]:
    """Decode the documents of the rows of batches, each to a row.

    Args:
        order: The column whose texts have the order of the rows. That of each document is added to them.
    """
    steps = [(decoder.name, decoder.make_step()) for decoder in decoders]
    last = max(place for place, each in enumerate(decoders, start=1) if getattr(each, "multiplies", False))
    is_typed = decoders[last - 1].spark_type is not None
    for batch in batches:
        for documents in _documents(batch, steps[:last], steps[last:], is_typed=is_typed):
            decodings, rows_of, numbers = zip(*documents, strict=True)
            indices = pa.array(rows_of, pa.int32())
            new = _columns(decodings, arrow_type)
            new["data"] = pa.array([each.data for each in decodings], batch["data"].type)
            new[DOCUMENT_NUMBER] = pa.array(numbers, pa.int32())
            if order is not None:
                texts = pa.array([f"{number or 0:0{_NUMBER_DIGITS}}" for number in numbers])
                new[order] = pc.binary_join_element_wise(batch[order].take(indices), texts, "")
            # The bytes of a record, once for each of its documents, could be more than an array holds.
            rows = batch.select([name for name in batch.schema.names if name not in new]).take(indices)
            yield _with_columns(rows, new, batch.schema.names, added)


_Document = tuple[Decoding, int, int | None]
"""A document, the row of its record in the batch, and its number in that record."""


def _documents(
    batch: pa.RecordBatch, splitting: _Steps, others: _Steps, *, is_typed: bool
) -> Iterator[list[_Document]]:
    """Decode the documents of the rows of a batch in order. Yields about `BATCH_BYTES` of them.

    Args:
        splitting: The steps up to the last one that may return several documents.
        others: The steps behind it.
        is_typed: Whether the last one of *splitting* returns values. Those of a document have its number:
            otherwise the numbers of later documents would depend on whether this one can be decoded.
    """
    documents: list[_Document] = []
    size = 0
    for row, (data, error) in enumerate(zip(batch["data"], batch["error"].to_pylist(), strict=True)):
        payload = data.as_py()
        record = Decoding(payload if error is None else None, error=error, data=payload)
        if record.value is None:
            _decode(record, ())
        number = 0
        steps = splitting if record.error is None else ()
        for decoding, is_document, ends in _split(record, steps, is_typed=is_typed):
            if decoding is not None:
                if decoding.error is None:
                    size += _decode(decoding, others)
                documents.append((decoding, row, number if is_document else None))
                size += len(decoding.data or b"") + _ROW_BYTES
            number += ends
            if size >= BATCH_BYTES:
                yield documents
                documents = []
                size = 0
    if documents:
        yield documents


def _split(
    decoding: Decoding, steps: _Steps, *, is_typed: bool, is_document: bool = False
) -> Iterator[tuple[Decoding | None, bool, bool]]:
    """Apply steps to a record, or to a document of one.

    Yields:
        Its documents, whether they are that and not the whole record, which failed, and whether what follows
        has another number; None in the place of each that a step left out. So the number of a document
        depends neither on what is left out nor on the values of the others.
    """
    for place, (name, step) in enumerate(steps, start=1):
        shares_number = is_document and is_typed and place == len(steps)
        try:
            several = step(decoding)
            if several is None:
                continue
            is_empty = True
            for each in several:
                is_empty = False
                if place == len(steps):
                    yield each, True, not shares_number
                else:
                    yield from _split(each, steps[place:], is_typed=is_typed, is_document=True)
            if is_empty or shares_number:
                yield None, True, True
        except Undecodable as error:
            decoding.fail(name, error)
            yield decoding, is_document, is_document
        return
    yield decoding, is_document, is_document
