"""Any condition on rows, for the operations that take predicates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Condition:
    """A condition in the SQL of delta-rs."""

    sql: str
