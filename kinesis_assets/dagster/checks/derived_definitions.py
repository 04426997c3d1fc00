"""The checks of a derived table as a part of its asset's definition, and their execution in the UI."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.settings.check_settings import SCANNING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.dagster.checked_table import CheckedTable
    from kinesis_assets.dagster.checks.result import CheckResult
    from kinesis_assets.dagster.settings.derived_check_settings import DerivedChecks
    from kinesis_assets.dagster.stream import OpenStream


def check_specs(key: dg.AssetKey, checks: DerivedChecks) -> list[dg.AssetCheckSpec]:
    """Return the specs of a derived table's checks.

    Args:
        key: The key of the table's asset.
        checks: The checks.
    """
    # A run that automation requests also executes the checks without a condition. For no_duplicates, which
    # such a run skips, Dagster would then no longer show the last result.
    first = dg.AutomationCondition.initial_evaluation()
    never = (first & ~first).with_label("never_requested")
    return [
        dg.AssetCheckSpec(name, asset=key, description=check.summary(), automation_condition=never)
        for name, check in checks.defined
    ]


def execute_checks(
    context: dg.AssetExecutionContext, opened: OpenStream, table: CheckedTable
) -> Iterator[dg.AssetCheckResult]:
    """Evaluate the selected checks of a derived table, and yield their results.

    Args:
        context: The context of the running asset. If it was materialized, `DerivedRunChecks` has reported the
            checks that read no rows.
        opened: The stream of the table.
        table: The table.

    Raises:
        LandingFailed: A Spark job failed, or the session cannot be started.
        TableError: The table or its source cannot be read.
    """
    from kinesis_assets.dagster.checks.derived_duplicates import check_no_duplicate_keys  # noqa: PLC0415  # definitions open no table
    from kinesis_assets.dagster.checks.derived_in_run import evaluated  # noqa: PLC0415  # as above

    selected = {check.name for check in context.selected_asset_check_keys}
    materializes = bool(context.selected_asset_keys)
    results: list[CheckResult] = []
    if selected - SCANNING and not materializes:
        results += evaluated(context.instance, table, time())
    check = table.checks.no_duplicates
    if check is not None and table.checks.scan_is_requested(selected, materializes=materializes):
        results.append(check_no_duplicate_keys(check, table, opened.start_spark()))
    yield from (result.of(table.key) for result in results if result.name in selected)
