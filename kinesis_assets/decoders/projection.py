"""Decoded records as the columns of a typed table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import StringType, StructType

from kinesis_assets.decoders.chain import decode
from kinesis_assets.decoders.failing_expressions import Expression, entries_of, with_failures
from kinesis_assets.decoders.json_documents import Json
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.ddl import DOCUMENT_NUMBER, KEEPING, KEEPING_DOCUMENTS, RECORD, quoted
from kinesis_assets.spark.arrow_steps import map_in_arrow
from kinesis_assets.spark.carried_column import carried, carry, is_in_order, map_each_row, with_carried

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from kinesis_assets.decoders.decoder import Decoder

_NOT_OF_ERRORS = {"stream", "batch_id", "value"}
"""The columns of decoded rows that a table of errors does not have."""

MARK = "__error"
"""The column with the reason in rows of records that could not be decoded, where they are only counted."""

_MARK_OF = ("shard_id", "sequence_number", "error")
"""The columns that the reason is made of."""

_OF_COLUMN = re.compile(r"(?:explode|posexplode|inline)_outer\s*\(\s*[\w.`]+\s*\)[^(]*", re.IGNORECASE)
"""A generator that returns one row for a record that cannot be decoded."""

_MULTIPLYING = re.compile(r"\b(explode|posexplode|inline|stack)(_outer)?\s*\(", re.IGNORECASE)
"""Functions that return several rows for a record, or none."""


def from_json(rows: DataFrame, spark_type: str | DataType) -> DataFrame:
    """Decode records that are one JSON document each, and return their fields as columns.

    `from_json(new, "order_id long, amount double")` is `typed_columns(new, Json("order_id long, ..."))`.

    Args:
        rows: Rows of the raw table.
        spark_type: The type of a document, see `Json`. It must be a struct.

    Raises the errors of `typed_columns`.
    """
    return typed_columns(rows, Json(spark_type))


def typed_columns(rows: DataFrame, *decoders: Decoder) -> DataFrame:
    """Decode records, and return the fields of their values as columns. No row is lost.

    A record that cannot be decoded has null in these columns. It is kept in the columns `error`, `shard_id`,
    `sequence_number`, `sub_sequence_number` and `data`, which are null in all other rows. If records may be
    split, so is the column `document_number`.

    Args:
        rows: Rows of the raw table.
        decoders: The decoders in the order in which they apply, see `decode`. The type of the last one must
            be a struct.

    Raises:
        InvalidInput: The decoders cannot be applied, or a field has the name of one of these columns.
    """
    return Projection().kept(decode(*decoders)(rows))


@dataclass(frozen=True, slots=True)
class Projection:
    """The columns and the rows of a typed table.

    Its methods take rows that `decode` returned. An expression sees the fields of the value and the columns
    of the raw table. A column with the name of a field is `_record.<name>`.

    Attributes:
        select: Expressions in Spark SQL, each a column. `*` are all fields, as is an empty sequence.
        where: A condition in Spark SQL; None for all rows. Records that cannot be decoded are kept anyway.
        key: Columns that are null in records that cannot be decoded, so that they replace no others.
    """

    select: Sequence[str] = ()
    where: str | None = None
    key: Collection[str] = ()

    def good(self, decoded: DataFrame) -> DataFrame:
        """Return the records that were decoded."""
        scope, fields = _scope(decoded.where("error IS NULL"))
        return self._selected(self._filtered(scope), self._expressions(fields)).drop(RECORD)

    def marked(self, decoded: DataFrame) -> DataFrame:
        """Return a row for each record, see `is_row_by_row`: those of `good`, and others with a `MARK`."""
        scope, fields = _scope(decoded)
        if MARK in {name.lower() for name in fields}:
            raise InvalidInput(f"a field must not have the name {MARK}")
        selected = self._selected(scope, self._expressions(fields))
        error = F.col(f"{RECORD}.error")
        columns = [F.when(error.isNull(), F.col(quoted(name))).alias(name) for name in selected.columns[:-1]]
        reason = F.concat_ws(": ", *(F.col(f"{RECORD}.{name}") for name in _MARK_OF))
        marked = selected.select(*columns, F.when(error.isNotNull(), reason).alias(MARK))
        return marked if self._selects else map_each_row(decoded, _marked_fields, marked.schema)

    def kept(self, decoded: DataFrame) -> DataFrame:
        """Return all records, see `typed_columns`.

        A column of the raw table that is selected by its name alone has its value in all rows.
        """
        scope, fields = _scope(decoded)
        keeping = keeping_of(decoded.columns)
        expressions = self._expressions(fields)
        raw = {each.lower() for each in scope.columns} - {each.lower() for each in fields} - {RECORD}
        unchanged = {each.strip("`").lower() for each in expressions} & raw
        if all(_keeps_bad_record(each) for each in expressions):
            selected = self._selected(self._filtered(scope), expressions)
        else:
            selected = self._apart(decoded, expressions, unchanged)
        names = selected.columns[:-1]
        error = F.col(f"{RECORD}.error")
        columns = []
        for name in names:
            if name.lower() in keeping and name.lower() not in unchanged:
                raise InvalidInput(
                    f"the column {name} has the name of one of the columns that keep a record which cannot "
                    f"be decoded ({', '.join(keeping)}); give it another name, as in {name} AS my_{name}, or "
                    "keep such records in a table of their own"
                )
            column = F.col(quoted(name))
            stays = name.lower() in unchanged and (name.lower() in keeping or name not in self.key)
            columns.append(column if stays else F.when(error.isNull(), column).alias(name))
        present = {name.lower() for name in names}
        columns += [
            F.when(error.isNotNull(), F.col(f"{RECORD}.{name}")).alias(name)
            for name in keeping
            if name not in present
        ]
        kept = selected.select(columns)
        return kept if self._selects else map_each_row(decoded, _kept_fields, kept.schema)

    def of_columns(self, rows: DataFrame) -> DataFrame:
        """Return rows that need no decoding. Expressions see their columns."""
        scope = rows.withColumn(RECORD, F.struct(F.lit(None).cast("string").alias("error")))
        return self._selected(self._filtered(scope), self._expressions(rows.columns)).drop(RECORD)

    def with_failures(self, decoded: DataFrame) -> DataFrame:
        """Return the same records, those for which an expression fails with an error, see `with_failures`."""
        scope, fields = _scope(decoded)
        expressions = [] if self.where is None else [Expression("where", self.where)]
        selected, columns = entries_of(scope, self._expressions(fields))
        failing = (each for each in selected if each.may_fail)
        expressions += sorted(failing, key=lambda each: each.is_empty is None)  # a generator first
        if not expressions:
            return decoded

        def scope_of(rows: DataFrame) -> DataFrame:
            found, _ = _scope(rows)
            for name, column in columns.items():  # each may read those before it
                found = found.withColumn(name, column)
            return found

        return with_failures(decoded, scope_of, expressions)

    @property
    def is_row_by_row(self) -> bool:
        """Whether `kept` and `marked` return one row for each record."""
        return self.where is None and not any(map(_MULTIPLYING.search, self.select))

    @property
    def _selects(self) -> bool:
        """Whether Spark evaluates expressions. Otherwise rows need not enter its JVM."""
        return bool(self.select) or self.where is not None

    def _expressions(self, fields: Sequence[str]) -> list[str]:
        each_field = [quoted(name) for name in fields]
        found = []
        for expression in self.select or ("*",):
            found += each_field if expression.strip() == "*" else [expression.strip()]
        return found

    def _apart(self, decoded: DataFrame, expressions: Sequence[str], unchanged: Collection[str]) -> DataFrame:
        """Return what `_selected` does, and one row for each record that cannot be decoded.

        Generators return none for it, or several. Records are decoded twice.
        """
        scope, _ = _scope(decoded.where("error IS NULL"))
        good = self._selected(self._filtered(scope), expressions)
        bad, _ = _scope(decoded.where("error IS NOT NULL"))
        columns = [
            F.col(quoted(field.name))
            if field.name.lower() in unchanged
            else F.lit(None).cast(field.dataType).alias(field.name)
            for field in good.schema.fields[:-1]
        ]
        rows = good.union(bad.select(*columns, RECORD))
        column = carried(rows)  # and no record has rows in both
        return rows if column is None else carry(with_carried(rows), column, in_order=is_in_order(good))

    def _filtered(self, scope: DataFrame) -> DataFrame:
        if self.where is None:
            return scope
        where, is_bad = self.where, F.col(f"{RECORD}.error").isNotNull()
        # Spark 3.5 parses an expression where it is created. An operand of OR may be a text, which is cast.
        _analyzed("where", where, lambda: scope.where(F.expr(where)))
        return scope.where(is_bad | F.expr(where))

    def _selected(self, scope: DataFrame, expressions: Sequence[str]) -> DataFrame:
        """Return columns, and behind them `_record`, with which Spark refuses aggregations."""
        try:
            selected = scope.selectExpr(*expressions, RECORD)
            names = [name.lower() for name in selected.columns]
        except AnalysisException:
            for expression in expressions:
                _analyzed("select", expression, partial(scope.selectExpr, expression, RECORD))
            raise
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidInput(f"select returns {', '.join(twice)} twice; name the columns with AS")
        return selected


def _marked_fields(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the fields of all records, and the mark of those that could not be decoded."""
    value = batch["value"]
    names = [*(field.name for field in value.type), MARK]
    return pa.RecordBatch.from_arrays([*value.flatten(), _marks(batch)], names)


def _marks(batch: pa.RecordBatch) -> pa.Array:
    """Return the reason why each record could not be decoded, behind its shard and sequence number."""
    error = batch["error"]
    parts = [pc.cast(batch[name], pa.string()) for name in _MARK_OF]
    reason = pc.binary_join_element_wise(*parts, ": ", null_handling="skip")
    return pc.if_else(pc.is_valid(error), reason, pa.scalar(None, pa.string()))


def _kept_fields(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the fields of all records, and the columns that keep those which could not be decoded."""
    is_bad = pc.is_valid(batch["error"])
    value = batch["value"]
    keeping = keeping_of(batch.schema.names)
    kept = [pc.if_else(is_bad, batch[name], pa.scalar(None, batch[name].type)) for name in keeping]
    names = [*(field.name for field in value.type), *keeping]
    return pa.RecordBatch.from_arrays([*value.flatten(), *kept], names)


def keeping_of(columns: Collection[str]) -> Sequence[str]:
    """Return the columns that keep a record which cannot be decoded, of those of decoded rows."""
    return KEEPING_DOCUMENTS if DOCUMENT_NUMBER in columns else KEEPING


def errors(decoded: DataFrame, without: Collection[str] = ()) -> DataFrame:
    """Return the records that `decode` could not decode, with the columns of the raw table and the reason.

    Args:
        without: Columns that are left out beside those that a table of errors never has.
    """
    names = [name for name in decoded.columns if name not in _NOT_OF_ERRORS and name not in without]

    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.select(names).filter(pc.is_valid(batch["error"]))

    return map_in_arrow(decoded, step, StructType([decoded.schema[name] for name in names]))


def reasons(decoded: DataFrame) -> DataFrame:
    """Return a row for each record, with the reason in the column `error` if it could not be decoded.

    Nothing else enters the JVM, so that records can be counted there.
    """

    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([_marks(batch)], ["error"])

    return map_in_arrow(decoded, step, StructType().add("error", StringType()))


def _scope(decoded: DataFrame) -> tuple[DataFrame, list[str]]:
    """Return rows in which expressions find fields and columns, and the names of the fields."""
    value = decoded.schema["value"].dataType
    if not isinstance(value, StructType):
        raise InvalidInput(f"the type {value.simpleString()} has no columns; use a struct")
    fields = value.names
    taken = [name.lower() for name in fields]
    if twice := sorted({name for name in fields if taken.count(name.lower()) > 1}):
        raise InvalidInput(f"the fields {', '.join(twice)} differ only by case, which Spark ignores")
    if RECORD in taken:
        raise InvalidInput(f"a field must not have the name {RECORD}")
    raw = [name for name in decoded.columns if name != "value"]
    scope = decoded.select(
        *(F.col("value").getField(name).alias(name) for name in fields),
        *(F.col(quoted(name)) for name in raw if name.lower() not in taken),
        F.struct(*(F.col(quoted(name)) for name in raw)).alias(RECORD),
    )
    return scope, fields


def _keeps_bad_record(expression: str) -> bool:
    """Return whether an expression returns one row for a record that cannot be decoded."""
    return _MULTIPLYING.search(expression) is None or _OF_COLUMN.fullmatch(expression) is not None


def _analyzed(setting: str, expression: str, apply: Callable[[], DataFrame]) -> DataFrame:
    """Let Spark analyze an expression; raise its error in one line."""
    try:
        rows = apply()
        rows.columns  # noqa: B018  # a session on Spark Connect analyzes only now
    except AnalysisException as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise InvalidInput(f"{setting}: {expression!r} is invalid: {lines[0]}; correct it") from None
    return rows
