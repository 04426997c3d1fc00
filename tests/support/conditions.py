"""Any condition on rows, for the operations that take predicates."""

from __future__ import annotations

from dataclasses import dataclass

from kinesis_assets.table.row_conditions import condition


@dataclass(frozen=True)
class Condition:
    """A condition in the SQL of delta-rs."""

    sql: str


@condition.register
def _(predicate: Condition) -> str:
    return predicate.sql
