"""Conditions on rows in SQL, which delta-rs, Spark and other engines evaluate."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import TYPE_CHECKING

from kinesis_assets.table.row_predicates import ArrivedBefore, RowsAfter

if TYPE_CHECKING:
    from kinesis_assets.table.row_predicates import RowPredicate


@singledispatch
def condition(predicate: RowPredicate) -> str:
    """Return a predicate as a condition; every text in it has passed through `sql_text`."""
    raise TypeError(f"there is no SQL for a {type(predicate).__name__}")


@condition.register(RowsAfter)
def _(predicate: RowsAfter) -> str:
    shards = (
        f"(shard_id = {sql_text(shard_id)} AND {later(*place)})"
        for shard_id, place in predicate.places.items()
    )
    return f"stream = {sql_text(predicate.stream)} AND ({' OR '.join(shards)})"


@condition.register(ArrivedBefore)
def _(predicate: ArrivedBefore) -> str:
    return f"arrival_date < '{predicate.day}'"


def later(number: int, sub: float) -> str:
    """Return a condition for the records of a shard after a place, see `PassedRecord`."""
    # Sequence numbers are text of different lengths, and delta-rs cannot write CAST or length() to its log.
    text = sql_text(str(number))
    same_length = "_" * len(str(number))
    later = f"sequence_number > {text}"
    if sub != math.inf:
        later += f" OR (sequence_number = {text} AND sub_sequence_number > {int(sub)})"
    return f"(sequence_number LIKE '{same_length}_%' OR (sequence_number LIKE '{same_length}' AND ({later})))"


def sql_text(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"
