"""Build the Dagster asset of a derived table: when it is materialized, and the bad records it may have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, wraps
from math import inf
from typing import TYPE_CHECKING, Any

import dagster as dg

from kinesis_assets.dagster.checks.definitions import check_specs, execute_checks
from kinesis_assets.dagster.dagster_internals import definition_of
from kinesis_assets.dagster.derived.derived_events import (
    metadata_after,
    report_missing_events,
    totals_of_table,
)
from kinesis_assets.dagster.derived_tables import CheckedTable, Consumption, attach
from kinesis_assets.dagster.events.table_metadata import (
    code_references,
    definition_metadata,
    kinds_of,
    place_of_code,
)
from kinesis_assets.dagster.failures import shown_as_failures
from kinesis_assets.dagster.settings.asset_settings import policy_of
from kinesis_assets.dagster.settings.derived_settings import (
    DerivedTableSettings,
    RollupSettings,
    parse_deleted_for,
)
from kinesis_assets.dagster.settings.settings_base import with_arguments_of
from kinesis_assets.dagster.stream import open_stream
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.derive.policy import MAX_BYTES
from kinesis_assets.errors import BadRecordsRefused, InvalidInput
from kinesis_assets.schemas.ddl import KEEPING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.derive.data_files import RecordCounts
    from kinesis_assets.derive.derivation import CheckedRows, Derivation, Rollup, Upsert


Transform = Callable[["DataFrame"], "DataFrame"]
"""A function from rows of the source to rows of the derived table."""


@with_arguments_of(DerivedTableSettings)
def derived_table(settings: DerivedTableSettings) -> Callable[[Transform], dg.AssetsDefinition]:
    """Turn a function of a DataFrame into the asset of a derived table, which has the function's name.

    The function gets new rows of the source, and returns rows of the table. Each row of the source reaches it
    in exactly one commit of the table. It must treat each row on its own, because rows arrive in steps of any
    size. The arguments are the fields of
    `kinesis_assets.dagster.settings.derived_settings.DerivedTableSettings`. The asset is materialized when
    its source has new rows, see `after_landing`.

    Raises:
        InvalidInput: An argument is invalid.
    """
    return lambda transform: build_derived_table(
        dg.AssetKey(transform.__name__),
        settings,
        with_bad_records(transform, settings.table, settings.max_bad_share),
        description=transform.__doc__,
        metadata=code_references(transform),
    )


@with_arguments_of(RollupSettings)
def rollup(settings: RollupSettings) -> Callable[[Transform], dg.AssetsDefinition]:
    """Turn a function of a DataFrame into the asset of a roll-up, which has the function's name.

    The function gets all rows of the groups that changed, and returns the new rows of these groups, as an
    aggregation does. The arguments are the fields of
    `kinesis_assets.dagster.settings.derived_settings.RollupSettings`. The asset is materialized when its
    source has new rows, see `after_landing`.

    Raises:
        InvalidInput: An argument is invalid.
    """
    return lambda transform: build_derived_table(
        dg.AssetKey(transform.__name__),
        settings,
        transform,
        description=transform.__doc__,
        metadata=code_references(transform),
    )


def build_derived_table(
    key: dg.AssetKey,
    settings: DerivedTableSettings | RollupSettings,
    transform: Callable[[DataFrame], DataFrame | CheckedRows],
    *,
    careful: Callable[[DataFrame], DataFrame | CheckedRows] | None = None,
    all_columns: bool = False,
    of_errors: bool = False,
    routes: Sequence[str] = (),
    routed_to: int = 0,
    description: str | None = None,
    metadata: Mapping[str, Any] = {},
    place: str = "",
) -> dg.AssetsDefinition:
    """Return the asset of a derived table.

    Args:
        careful: The function of the rows of a step whose job failed, see `Derivation`.
        all_columns: Whether the rows must have all columns of the table, see `Derivation`.
        of_errors: Whether it consumes the records that the source has separated, and not the source's rows.
        routes: If the source is a router, the values of the column `route` of the rows that it consumes.
        routed_to: If it is a router, the number of values of its column `route`; 0 otherwise.
        description: The asset's description, unless the settings have one. It has a default.
        place: The file and the line that name the source, unless the metadata has those of the function.
    """

    def derivation(source: str) -> Derivation:
        from kinesis_assets.derive.derivation import Derivation, Router  # noqa: PLC0415  # loads PySpark

        return Derivation(
            source=source,
            transform=transform,
            mode=Router(routed_to) if routed_to else _mode_of(settings),
            partition_by=tuple(settings.partition_by),
            on_deleted=settings.on_deleted,
            max_bytes=MAX_BYTES if isinstance(settings, RollupSettings) else settings.max_bytes,
            all_columns=all_columns,
            time_zone=settings.time_zone,
            careful=careful,
        )

    names, upstream = StreamNames.parse(settings.source), settings.upstream_key
    checks = settings.checks_of_table
    consumption = Consumption(
        settings,
        key.path[-1],
        names,
        upstream,
        checks,
        derivation,
        unique=() if isinstance(settings, RollupSettings) else tuple(settings.key),
        place=place or place_of_code(metadata),
        of_errors=of_errors,
        groups=tuple(settings.by) if isinstance(settings, RollupSettings) else (),
        routes=tuple(routes),
        is_router=bool(routed_to),
    )

    @shown_as_failures()
    def materialized(
        context: dg.AssetExecutionContext, opened: OpenStream, own: dg.AssetKey
    ) -> dg.MaterializeResult[Any]:
        from kinesis_assets.table.run_files.heartbeat import Heartbeat  # noqa: PLC0415  # definitions open no table

        table = consumption.open_table(opened)
        # Each commit has an attempt of its own, so the step may take any time.
        with Heartbeat(table, context.run.run_id, seconds=inf):
            progress = report_missing_events(context, opened, own, table)
            spark = opened.start_spark()
            commits = list(consumption.commits(context, own, opened, table, spark))
            metadata, _ = metadata_after(progress, commits, totals_of_table(table))
            return dg.MaterializeResult(asset_key=own, metadata=metadata)

    def derived() -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
        from kinesis_assets.dagster.checks.in_run import DerivedRunChecks  # noqa: PLC0415  # only runs need it

        context = dg.AssetExecutionContext.get()
        opened = open_stream(context.resources, names)
        own = _own_key(context)
        table = CheckedTable.of(own, consumption, definition_of(context, upstream), opened)
        if context.selected_asset_keys:
            yield materialized(context, opened, own)
            DerivedRunChecks(context.get_step_execution_context(), table, opened).report()
        with shown_as_failures():
            yield from execute_checks(context, opened, table)

    attach(consumption, derived)
    specs = check_specs(key, checks)
    return dg.multi_asset(
        name=key.to_python_identifier(),
        specs=[
            dg.AssetSpec(
                key,
                deps=[upstream],
                group_name=settings.group_name or names.group,
                owners=settings.owners,
                tags=settings.tags,
                kinds=kinds_of(settings.kinds, settings.table_format),
                automation_condition=after_landing(),
                description=settings.description
                or description
                or f"Derived from {upstream.to_user_string()}, in {settings.table}.",
                metadata={
                    **definition_metadata(
                        settings.table, settings.table_format, settings.name_in_catalog(key.path[-1])
                    ),
                    **metadata,
                },
                freshness_policy=policy_of(settings.freshness),
            )
        ],
        check_specs=specs,
        can_subset=bool(specs),  # the checks can be executed without a materialization
        required_resource_keys={names.io_manager_key},
    )(derived)


def _mode_of(settings: DerivedTableSettings | RollupSettings) -> Upsert | Rollup | None:
    """Return how rows of the table replace others; None if they do not."""
    from kinesis_assets.derive.derivation import Rollup, Upsert  # noqa: PLC0415  # loads PySpark

    if isinstance(settings, RollupSettings):
        return Rollup(tuple(settings.by))
    if not settings.key:
        return None
    remembered = None if settings.deleted_for is None else parse_deleted_for(settings.deleted_for)
    return Upsert(tuple(settings.key), tuple(settings.order_by), settings.delete_where, remembered)


def _own_key(context: dg.AssetExecutionContext) -> dg.AssetKey:
    """Return the key of the running asset, which may differ from the one that it was built with."""
    keys: set[dg.AssetKey] = {check.asset_key for check in context.selected_asset_check_keys}
    (key,) = keys.union(context.selected_asset_keys)
    return key


_LABEL = "after_landing"


def after_landing() -> dg.AutomationCondition[Any]:
    """Return the condition under which a derived table is materialized: its source has new rows.

    `AutomationCondition.eager` waits until no partition of the source is missing and no run of it is in
    progress. But shards often wait for their parents, and a continuous run is always in progress. Rows of
    a run that also includes the derived table do not count: it consumes them, or the next continuous run.
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


def refuse_bad_records(table: str, most: float, reason: str, instead: str, counts: RecordCounts) -> None:
    """Check that at most a share of the records of a step is bad.

    Args:
        reason: Which setting says so, for the error.
        instead: What to do to accept more of them, for the error.

    Raises:
        BadRecordsRefused: More of them are.
    """
    if counts.errors > most * counts.records:
        share = counts.errors / counts.records
        raise BadRecordsRefused(
            table,
            f"{counts.errors} of {counts.records} records (a share of {share:.3g}) are bad, "
            f"and {reason}. Nothing was committed. One of them is {counts.example}. Correct the "
            f"schema, the expression or the producer, or {instead}",
        )


def check_of_share(table: str, most: float | None) -> Callable[[RecordCounts], None] | None:
    """Return the check of the records of a step by the setting `max_bad_share`; None without it."""
    if most is None:
        return None
    return partial(refuse_bad_records, table, most, f"max_bad_share is {most:g}", "raise max_bad_share")


def with_bad_records(
    transform: Callable[[DataFrame], DataFrame], table: str, max_bad_share: float | None
) -> Callable[[DataFrame], DataFrame | CheckedRows]:
    """Return a transformation of which the rows of records that could not be decoded are counted.

    Without a limit, they are counted only if the rows have all columns of `typed_columns`: a column `error`
    alone may mean something else.
    """

    @wraps(transform)
    def transformed(new: DataFrame) -> DataFrame | CheckedRows:
        from pyspark.sql import DataFrame  # noqa: PLC0415  # loads PySpark

        from kinesis_assets.derive.derivation import CheckedRows  # noqa: PLC0415  # likewise

        rows = transform(new)
        if not isinstance(rows, DataFrame):
            return rows  # which is refused
        if max_bad_share is None and not {*KEEPING} <= {*rows.columns}:
            return rows
        if "error" not in rows.columns:
            raise InvalidInput(
                f"table {table}: max_bad_share: the function returns no column error, so bad records cannot "
                "be counted; return the one of from_json or typed_columns"
            )
        return CheckedRows(rows, "error", check=check_of_share(table, max_bad_share))

    return transformed
