"""When a derived table is materialized: its source has new rows."""

from __future__ import annotations

from typing import Any

import dagster as dg

_LABEL = "after_landing"


def after_landing() -> dg.AutomationCondition[Any]:
    """Return the condition under which a derived table is materialized: its source has new rows.

    `AutomationCondition.eager` waits until no partition of the source is missing and no run of it is in
    progress. But shards often wait for their parents, and a continuous run is always in progress. Rows of
    a run that also includes the derived table do not count: that run has consumed them.
    """
    landed = dg.AutomationCondition.any_deps_updated()
    return (
        landed.since(dg.AutomationCondition.newly_requested() & ~landed)
        & ~dg.AutomationCondition.in_progress()
    ).with_label(_LABEL)


def moves_after_landing(definition: dg.AssetsDefinition, key: dg.AssetKey) -> bool:
    """Return whether an asset has this condition."""
    condition = definition.automation_conditions_by_key.get(key)
    return condition is not None and condition.get_label() == _LABEL
