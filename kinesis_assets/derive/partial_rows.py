"""Fills the values that a change lacks with those of the row that it replaces.

Sources of changes leave out values that have not changed, such as large texts. A row names their columns
in `UNCHANGED_COLUMN`. The rows of a key are taken one after the other, as in `derive.upsert`, by tasks that
keep one row of one key at a time.

Spark tasks import this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kinesis_assets.schemas.ddl import UNCHANGED_COLUMN
from kinesis_assets.spark.arrow_steps import map_in_arrow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from kinesis_assets.spark.arrow_steps import ArrowStep

_VERSION, _IS_FIRST, _DELETES = "__version", "__is_first", "__row_deletes"


def unknown_columns(rows: DataFrame) -> list[str]:
    """Let Spark return the names that rows have in `UNCHANGED_COLUMN`, each once."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  # tasks do not need it

    names = rows.select(F.explode(UNCHANGED_COLUMN).alias("name")).where("name IS NOT NULL").distinct()
    return sorted(row["name"] for row in names.collect())


def has_unknown_values(rows: DataFrame) -> bool:
    """Return whether rows have the column with the names."""
    from pyspark.sql.types import ArrayType, StringType  # noqa: PLC0415  # tasks do not need it

    kind = rows.schema[UNCHANGED_COLUMN].dataType if UNCHANGED_COLUMN in rows.columns else None
    return isinstance(kind, ArrayType) and isinstance(kind.elementType, StringType)


def filled(
    rows: DataFrame,
    columns: Sequence[str],
    *,
    key: Sequence[str],
    version: Column,
    sequence: Sequence[Column],
    deletes: Column,
    remembers: bool,
    tasks: int,
) -> DataFrame:
    """Return rows with the values that they lacked, and without the column that names these.

    Args:
        rows: The rows of some keys, those of the table among them.
        columns: The columns of which values may be unknown.
        version: By which of two rows the newer one is found.
        sequence: The order in which the rows of a key are taken.
        deletes: Whether a row deletes its key.
        remembers: Whether the version of a deletion is compared with later rows.
    """
    from pyspark.sql import Window  # noqa: PLC0415  # tasks do not need it
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  # likewise
    from pyspark.sql.types import StructType  # noqa: PLC0415  # likewise

    keys = [F.col(f"`{name}`") for name in key]
    same_key = Window.partitionBy(*keys)
    in_order = [column.asc_nulls_first() for column in sequence]
    numbered = rows.repartition(tasks, *keys).withColumns(
        {
            _VERSION: F.dense_rank().over(same_key.orderBy(version.asc_nulls_first())),
            _IS_FIRST: F.row_number().over(same_key.orderBy(*in_order)) == 1,
            _DELETES: deletes,
        }
    )
    # A sort by the number of a row in its key would separate keys, so the columns are named again.
    placed = numbered.sortWithinPartitions(*keys, *in_order)
    fields = [field for field in rows.schema if field.name != UNCHANGED_COLUMN]
    step = filling([field.name for field in fields], columns, remembers=remembers)
    return map_in_arrow(placed, step, StructType(fields))


def filling(names: Sequence[str], columns: Sequence[str], *, remembers: bool) -> ArrowStep:
    """Return the function that fills the values of sorted rows, see `filled`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        values: Mapping[str, pa.Array] = {}
        version: int | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            known = {
                name: pa.concat_arrays([values.get(name, pa.nulls(1, batch[name].type)), batch[name]])
                for name in columns
            }
            taken, current, version = _taken(batch, columns, version, remembers=remembers)
            rows = {name: known[name].take(pa.array(taken[name], pa.int64())) for name in columns}
            values = {name: known[name].take(pa.array([current[name]], pa.int64())) for name in columns}
            arrays = [rows[name] if name in rows else batch[name] for name in names]
            yield pa.RecordBatch.from_arrays(arrays, list(names))

    return run


def _taken(
    batch: pa.RecordBatch, columns: Sequence[str], version: int | None, *, remembers: bool
) -> tuple[dict[str, list[int | None]], dict[str, int | None], int | None]:
    """Take the rows of a batch one after the other.

    Args:
        version: The version of the row or remembered deletion before the batch; None if there is none.

    Returns:
        The place of the value that each row has in each column: 0 for that of the row before the batch, n for
        that of the batch's row n, counted from 1, and None for null. Then the same for the row that
        is there after the batch; and its version.
    """
    taken: dict[str, list[int | None]] = {name: [] for name in columns}
    current: dict[str, int | None] = dict.fromkeys(columns, 0)
    marks: list[list[Any]] = [
        batch[name].to_pylist() for name in (_VERSION, _IS_FIRST, _DELETES, UNCHANGED_COLUMN)
    ]
    for place, (own, is_first, deletes, unknown) in enumerate(zip(*marks, strict=True), start=1):
        if is_first:
            version, current = None, dict.fromkeys(columns, None)
        replaces = version is None or own >= version
        if replaces:
            version = own if remembers or not deletes else None
            for name in columns:
                if deletes:
                    current[name] = None
                elif name not in (unknown or ()):
                    current[name] = place
        for name in columns:
            taken[name].append(current[name] if replaces and not deletes else place)
    return taken, current, version
