"""Derived tables with checks that no definition has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import dagster as dg

from kinesis_assets.dagster.derived_tables import CheckedTable, Consumption
from kinesis_assets.dagster.settings.check_settings import DerivedChecks
from kinesis_assets.dagster.settings.derived_settings import DerivedTableSettings
from kinesis_assets.dagster.stream_names import StreamNames

SOURCE, CHECKS = dg.AssetKey("source"), DerivedChecks()


def checked_table(
    name: str, uri: str, source: str, checks: DerivedChecks = CHECKS, **changes: Any
) -> CheckedTable:
    """Return a table with the partitions of `PlainDerived`, and with the changes that `changed` makes."""
    derivation: Any = None  # no check computes rows
    settings = DerivedTableSettings(source="clicks", table=uri, partition_by=["part"])
    consumption = Consumption(settings, name, StreamNames("clicks"), SOURCE, checks, derivation)
    return changed(CheckedTable(dg.AssetKey(name), consumption, source), **changes)


def changed(table: CheckedTable, **changes: Any) -> CheckedTable:
    """Return a table with other attributes, `uri`, settings, or attributes of its consumption."""
    own = {name: changes.pop(name) for name in ("key", "source", "source_format") if name in changes}
    if "uri" in changes:
        changes["table"] = changes.pop("uri")
    before = table.consumption.settings
    given = {name: changes.pop(name) for name in type(before).model_fields if name in changes}
    settings = before.model_copy(update=given)
    return replace(table, consumption=replace(table.consumption, settings=settings, **changes), **own)
