"""The definitions of the checks of raw and derived tables, and their execution in the UI."""

from collections.abc import Iterator
from time import time
from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.dagster_internals import assets_of_job
from kinesis_assets.dagster.derived_tables import CheckedTable
from kinesis_assets.dagster.failures import shown_as_failures
from kinesis_assets.dagster.settings.check_settings import SCANNING, Checks, DerivedChecks
from kinesis_assets.dagster.stream import OpenStream, open_stream
from kinesis_assets.dagster.stream_names import StreamNames

if TYPE_CHECKING:
    from kinesis_assets.dagster.checks.results import CheckResult


# Dagster reads the types of the op's arguments, so annotations must not be strings.


def build_checks(names: StreamNames, checks: Checks) -> dg.AssetChecksDefinition | None:
    """Build the definition of a stream's checks; None if none is defined."""
    key = names.raw_key
    specs = [
        dg.AssetCheckSpec(name, asset=key, description=check.summary()) for name, check in checks.defined
    ]
    if not specs:
        return None

    @dg.multi_asset_check(
        name=names.checks,
        specs=specs,
        can_subset=True,
        required_resource_keys={names.io_manager_key},
        description=f"Evaluates the checks of {names.stream}_raw. The sensor does it at each tick, without a "
        "run.",
    )
    def execute(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        from kinesis_assets.dagster.checks.duplicates import check_no_duplicates  # noqa: PLC0415  # definitions open no table
        from kinesis_assets.dagster.checks.in_run import evaluated_raw  # noqa: PLC0415  # as above

        opened, check = open_stream(context.resources, names), checks.no_duplicates
        selected = {each.name for each in context.selected_asset_check_keys}
        scans = checks.scan_is_requested(selected, materializes=key in assets_of_job(context))
        results: list[CheckResult] = []
        with shown_as_failures():
            if selected - SCANNING:
                results += evaluated_raw(context.instance, opened)
            if scans and check is not None:
                results.append(check_no_duplicates(check, opened))
        if selected & SCANNING and not scans:
            context.log.info("no_duplicates reads all rows: it is skipped in a run that adds some.")
        yield from (result.of(key) for result in results if result.name in selected)

    return execute


def check_specs(key: dg.AssetKey, checks: DerivedChecks) -> list[dg.AssetCheckSpec]:
    """Return the specs of a derived table's checks."""
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
    """
    from kinesis_assets.dagster.catalog_entries import CatalogEntries  # noqa: PLC0415  # as above
    from kinesis_assets.dagster.checks.duplicates import check_no_duplicate_keys  # noqa: PLC0415  # as above
    from kinesis_assets.dagster.checks.in_run import evaluated_derived  # noqa: PLC0415  # as above

    selected = {check.name for check in context.selected_asset_check_keys}
    materializes = bool(context.selected_asset_keys)
    results: list[CheckResult] = []
    if selected - SCANNING and not materializes:
        results += evaluated_derived(context.instance, table, time(), CatalogEntries(opened))
    check = table.checks.no_duplicates
    if check is not None and table.checks.scan_is_requested(selected, materializes=materializes):
        results.append(check_no_duplicate_keys(check, table, opened.start_spark()))
    yield from (result.of(table.key) for result in results if result.name in selected)
