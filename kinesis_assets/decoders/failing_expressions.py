"""Records for which an expression of a typed table fails in Spark, as a cast of an invalid date does.

Spark ends a job with the first of them, and does not say which record it is of. `with_failures` finds all of
them: SQL has functions that return null where their argument fails, whatever it is. Since that is documented
only for some arguments, each failure is confirmed by a job that evaluates the expression for one such record,
which also has Spark's reason. If the functions did not do it, steps would fail as if nobody had searched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import StringType, StructType

from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.ddl import RECORD, quoted
from kinesis_assets.spark.arrow_steps import map_in_arrow
from kinesis_assets.spark.carried_column import map_each_row
from kinesis_assets.spark.session import first_line, reason_of_value, spark_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from kinesis_assets.spark.arrow_steps import ArrowStep

MAX_FAILURES = 1000
"""Maximum number of different failures of a step. Each takes a job; records with the same values are one."""

_FAILED = "__failed"
"""The column with the number of the first expression that fails for a record."""

_FAILURE = "__failure"
"""The column that is the same in records for which the same expression fails with the same values."""

_CHARACTERS = 500
"""Maximum length of an expression and of a reason in the column `error`."""

_EXAMPLES = 3

_NAME = r"(?:\w+|`(?:[^`]|``)+`)"
_PLAIN = re.compile(rf"{_NAME}(?:\.{_NAME})*(?:\s+AS\s+{_NAME})?", re.IGNORECASE)
"""A column, which cannot fail."""

_GENERATOR = re.compile(r"(?:(?:explode|posexplode|inline)(?:_outer)?|stack|json_tuple)\s*\(", re.IGNORECASE)
_MAY_BE_EMPTY = re.compile(r"(?:explode|posexplode|inline)\s*\(", re.IGNORECASE)
_TOKEN = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression of a typed table.

    Attributes:
        setting: The setting that has it: select or where.
        named: The entries of select before it whose names it may read.
    """

    setting: str
    text: str
    named: tuple[Expression, ...] = ()

    @property
    def may_fail(self) -> bool:
        """Whether the expression is more than a column."""
        return _PLAIN.fullmatch(self.text) is None

    @property
    def evaluated(self) -> str:
        """An expression that is never null, and fails where this one does."""
        if self.setting == "where":
            return f"IF(({self.text}), 'true', 'false')"
        return f"CAST(struct({_arguments(self.text)}) AS STRING)"

    @property
    def tried(self) -> str:
        """An expression that is null where this one fails."""
        return f"try_to_binary({self.evaluated}, 'utf-8')"

    @property
    def is_empty(self) -> str | None:
        """A condition that is true for records without a row, for which no other expression is evaluated.

        None if there are no such records.
        """
        if _MAY_BE_EMPTY.match(self.text) is None:
            return None
        return f"coalesce(size({_arguments(self.text)}), 0) <= 0"

    @property
    def is_generator(self) -> bool:
        """Whether the expression returns rows."""
        return _GENERATOR.match(self.text) is not None

    @property
    def is_of_record(self) -> bool:
        """Whether the expression is evaluated once for a record, and not for each row of a generator."""
        return all(each.is_of_record and not each.is_generator for each in self.named)

    def reads(self, name: str) -> bool:
        """Return whether the expression may read a column. It has the name of each that it reads."""
        text = self.text.lower()
        is_read = "*" in text or name.lower() in text or quoted(name).lower() in text
        return is_read or any(each.reads(name) for each in self.named)


def entries_of(scope: DataFrame, select: Sequence[str]) -> tuple[list[Expression], dict[str, Column]]:
    """Return the entries of `select`, and the columns by which they read those before them.

    As in Spark, the name of an entry hides no column. Entries that read what a generator returns are left
    out: if one fails, so does the step.

    Args:
        scope: Rows with the columns that every entry sees.
    """
    found = [Expression("select", text) for text in select]
    columns: dict[str, Column] = {}
    if _is_resolved(scope, *(each.evaluated for each in found if each.may_fail)):
        return found, columns
    hidden = {name.lower() for name in scope.columns}
    named: dict[str, Expression] = {}
    seen = scope
    for number, text in enumerate(select):
        entry = found[number]
        if not _is_resolved(scope, text):
            read = tuple(each for name, each in named.items() if _has(text, name))
            entry = found[number] = replace(entry, named=read)
        fields = seen.selectExpr(text).schema.fields
        for field in fields:
            is_read = any(_has(later, field.name) for later in select[number + 1 :])
            if field.name.lower() in hidden or not is_read:
                continue
            if entry.is_generator or not entry.is_of_record:
                column = F.lit(None).cast(field.dataType)
            else:
                column = _value(entry, field.name if len(fields) > 1 else None)
            named[field.name], columns[field.name] = entry, column
            seen = seen.withColumn(field.name, column)
    return [each for each in found if each.is_of_record], columns


def _is_resolved(scope: DataFrame, *expressions: str) -> bool:
    """Return whether Spark finds all that expressions read among the columns of some rows."""
    try:
        scope.selectExpr(*expressions).columns  # noqa: B018  # a session on Spark Connect analyzes only now
    except AnalysisException:
        return False
    return True


def _has(text: str, name: str) -> bool:
    """Return whether an expression may read a column, of which it has the whole name."""
    return re.search(rf"(?<!\w){re.escape(quoted(name)[1:-1])}(?!\w)", text, re.IGNORECASE) is not None


def _value(entry: Expression, field: str | None) -> Column:
    """Return the value of an entry, or of one of its columns; null in records for which it fails."""
    value = F.expr(entry.text) if field is None else F.expr(f"struct({entry.text})").getField(field)
    # As in `_flagged`, what may fail must not be in the first condition.
    is_bad = F.when(F.col(f"{RECORD}.error").isNotNull(), None)
    return is_bad.when(F.expr(entry.tried).isNull(), None).otherwise(value)


def with_failures(
    decoded: DataFrame, scope: Callable[[DataFrame], DataFrame], expressions: Sequence[Expression]
) -> DataFrame:
    """Return the records that `decode` returned, in which those for which an expression fails have an error.

    Their `value` is null, as in records that cannot be decoded. The result does not depend on the records
    around them.

    Args:
        scope: Returns records with the columns that expressions see, and that of the raw record.
        expressions: The expressions that may fail, in the order in which they are tried: the condition and
            then a generator first.

    Raises:
        InvalidInput: An expression fails for too many different values.
    """
    flagged = _flagged(scope(decoded), decoded.schema, expressions)
    reasons = _reasons(flagged, scope, expressions)
    if not reasons:
        return decoded
    return map_each_row(flagged, _marking(expressions, reasons, decoded.columns), decoded.schema)


def _flagged(scope: DataFrame, schema: StructType, expressions: Sequence[Expression]) -> DataFrame:
    """Return records with the number of the first expression that fails."""
    # Spark evaluates what several expressions, or parts of one, have in common before all of them, and would
    # fail there; but not what is behind the first condition of CASE.
    branches = [f"WHEN {RECORD}.error IS NOT NULL THEN NULL"]
    for number, each in enumerate(expressions):
        branches.append(f"WHEN {each.tried} IS NULL THEN {number}")
        if each.setting == "where":
            branches.append(f"WHEN {each.tried} = X'{b'false'.hex()}' THEN NULL")
        if each.is_empty is not None:
            branches.append(f"WHEN {each.is_empty} THEN NULL")
    fields = cast("StructType", schema["value"].dataType).names
    value = F.struct(*(F.col(quoted(name)).alias(name) for name in fields))
    columns = [
        (value if name == "value" else F.col(f"{RECORD}.{quoted(name)}")).alias(name) for name in schema.names
    ]
    return scope.select(*columns, F.expr(f"CASE {' '.join(branches)} END").cast("int").alias(_FAILED))


def _reasons(
    flagged: DataFrame, scope: Callable[[DataFrame], DataFrame], expressions: Sequence[Expression]
) -> dict[str, str]:
    """Return the reason of each failure, as `error` has it."""
    schema = StructType([*flagged.schema.fields]).add(_FAILURE, StringType())
    found = map_in_arrow(flagged, _failures(expressions), schema)
    failures = found.repartition(1).dropDuplicates([_FAILURE]).limit(MAX_FAILURES + 1).persist()
    try:
        rows = sorted((row[_FAILURE], row[_FAILED]) for row in failures.select(_FAILURE, _FAILED).collect())
        few = rows[:_EXAMPLES] if len(rows) > MAX_FAILURES else rows
        reasons = {}
        for failure, number in few:
            expression = expressions[number]
            one = scope(failures.where(F.col(_FAILURE) == failure))
            if (reason := _reason(one, expression)) is not None:
                reasons[failure] = f"{expression.setting}: {expression.text[:_CHARACTERS]}: {reason}"
    finally:
        failures.unpersist()
    if len(rows) > MAX_FAILURES:
        raise InvalidInput(
            f"expressions fail for more than {MAX_FAILURES} different values of a step, so nothing was "
            f"written, as {'; '.join(reasons.values())}. Correct them, such as with try_cast, "
            "try_to_timestamp, try_divide or get"
        )
    return reasons


def _reason(record: DataFrame, expression: Expression) -> str | None:
    """Return why an expression fails for a record; None if it does not fail."""
    try:
        record.selectExpr(expression.evaluated).collect()
    except AnalysisException:
        raise
    except spark_errors() as error:
        return (reason_of_value(error) or first_line(error))[:_CHARACTERS]
    return None


def _failures(expressions: Sequence[Expression]) -> ArrowStep:
    """Return the step that returns a record of each failure, and its failure."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen: set[str] = set()
        for batch in batches:
            for row, failure in _failures_in(batch, expressions):
                if failure not in seen and len(seen) <= MAX_FAILURES:
                    seen.add(failure)
                    one = batch.slice(row, 1)
                    yield pa.RecordBatch.from_arrays(
                        [*one.columns, pa.array([failure])], [*one.schema.names, _FAILURE]
                    )

    return run


def _failures_in(batch: pa.RecordBatch, expressions: Sequence[Expression]) -> Iterator[tuple[int, str]]:
    """Yield the rows of a batch for which an expression fails, with their failures."""
    rows = pc.indices_nonzero(pc.is_valid(batch[_FAILED]))
    failed = batch.take(rows)
    value = failed["value"]
    fields = [*zip((field.name for field in value.type), map(_in_range, value.flatten()), strict=True)]
    raw = [(name, _in_range(failed[name])) for name in failed.schema.names if name not in {"value", _FAILED}]
    for place, row in enumerate(rows.to_pylist()):
        number = failed[_FAILED][place].as_py()
        expression = expressions[number]
        read = [number, *(column[place].as_py() for name, column in fields if expression.reads(name))]
        is_whole = expression.reads(RECORD)
        read += [column[place].as_py() for name, column in raw if is_whole or expression.reads(name)]
        yield row, sha256(repr(read).encode()).hexdigest()


def _in_range(values: pa.Array) -> pa.Array:
    """Return values with numbers in place of dates and times, which Python has only up to the year 9999."""
    return values.cast(_with_numbers(values.type))


def _with_numbers(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_numbers(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_with_numbers(kind.key_type), _with_numbers(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_with_numbers(kind.value_type))
    return kind


def _marking(
    expressions: Sequence[Expression], reasons: Mapping[str, str], names: Sequence[str]
) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return the step that adds the reasons to the records for which expressions fail."""

    def run(batch: pa.RecordBatch) -> pa.RecordBatch:
        errors = batch["error"].to_pylist()
        for row, failure in _failures_in(batch, expressions):
            errors[row] = reasons.get(failure)
        error = pa.array(errors, pa.string())
        value = batch["value"]
        value = pa.StructArray.from_arrays(value.flatten(), fields=[*value.type], mask=pc.is_valid(error))
        new = {"error": error, "value": value}
        return pa.RecordBatch.from_arrays([new.get(name, batch[name]) for name in names], names)

    return run


def _arguments(expression: str) -> str:
    """Return the arguments of a generator, which must be a column of its own, or another expression."""
    if (generator := _GENERATOR.match(expression)) is None:
        return expression
    depth, start = 1, generator.end()
    for token in _TOKEN.finditer(expression, start):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if not depth:
            return expression[start : token.start()]
    return expression
