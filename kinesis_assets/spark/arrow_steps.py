"""Functions of Arrow batches as steps of a DataFrame. Steps in a row run as one in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


ArrowStep = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]
"""A function from the batches of a partition to others."""

_ATTRIBUTE = "_kinesis_arrow_steps"


@dataclass(frozen=True, slots=True)
class _Steps:
    """The DataFrame to which steps are applied, and these steps."""

    source: DataFrame
    steps: tuple[ArrowStep, ...]


def map_in_arrow(rows: DataFrame, step: ArrowStep, schema: StructType | str) -> DataFrame:
    """Apply a function to rows, as `DataFrame.mapInArrow` does.

    Rows that are the result of this function are passed on within the Python worker. They do not enter the
    JVM, so the function gets the batches that the one before it returned.
    """
    steps = _steps_of(rows)
    source, before = (rows, ()) if steps is None else (steps.source, steps.steps)
    after = (*before, step)
    result = source.mapInArrow(_composed(after), schema)
    setattr(result, _ATTRIBUTE, _Steps(source, after))
    return result


def is_mapped(rows: DataFrame) -> bool:
    """Return whether rows are what `map_in_arrow` returned, so that another step can join it in one pass."""
    return _steps_of(rows) is not None


def _steps_of(rows: DataFrame) -> _Steps | None:
    steps: _Steps | None = vars(rows).get(_ATTRIBUTE)
    return None if steps is None or rows.is_cached else steps


def _composed(steps: tuple[ArrowStep, ...]) -> ArrowStep:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for step in steps:
            batches = step(batches)
        return batches

    return run
