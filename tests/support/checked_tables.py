"""Derived tables with checks that no definition has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import dagster as dg

from kinesis_assets.dagster.derived_tables import CheckedTable, Consumption
from kinesis_assets.dagster.settings.check_settings import DerivedChecks
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.derive.policy import OnDeleted

SOURCE, CHECKS = dg.AssetKey("source"), DerivedChecks()


def checked_table(
    name: str, uri: str, source: str, checks: DerivedChecks = CHECKS, **changes: Any
) -> CheckedTable:
    """Return a table with the partitions of `PlainDerived`, and with the changes that `changed` makes."""
    derivation: Any = None  # no check computes rows
    consumption = Consumption(
        StreamNames("clicks"), SOURCE, uri, derivation, OnDeleted.FAIL, (), checks, partition_by=("part",)
    )
    return changed(CheckedTable(dg.AssetKey(name), consumption, source), **changes)


def changed(table: CheckedTable, **changes: Any) -> CheckedTable:
    """Return a table with other attributes, `uri`, or attributes of its consumption."""
    own = {name: changes.pop(name) for name in ("key", "source", "source_format") if name in changes}
    if "uri" in changes:
        changes["table"] = changes.pop("uri")
    return replace(table, consumption=replace(table.consumption, **changes), **own)
