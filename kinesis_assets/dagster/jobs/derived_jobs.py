"""The jobs that start a derived table again, and that decode its bad records again."""

# Dagster reads the types of an op's arguments, so annotations must not be strings.
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from kinesis_assets.dagster.dagster_internals import assets_of_location
from kinesis_assets.dagster.derived.derived_events import derived_metadata, totals_of_table
from kinesis_assets.dagster.derived_tables import derived_tables, table_of
from kinesis_assets.dagster.events.metadata import facts_metadata
from kinesis_assets.dagster.jobs.single_op_job import single_op_job
from kinesis_assets.dagster.stream import OpenStream, open_stream
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from kinesis_assets.derive.commit_entry import DerivedCommit

_UNKNOWN = "it is not recorded how many rows it has consumed"


class RebuildConfig(dg.Config):
    """The table to start again."""

    asset: str = Field(description="Asset key of a derived table of the stream.")
    take_over: bool = Field(
        default=False,
        description="Only make the asset the owner of the table, because it was renamed. No row is changed.",
    )
    apply: bool = Field(default=False, description="Apply the change. Without it, only report the plan.")


def rebuild_asset(
    opened: OpenStream,
    assets: Mapping[dg.AssetKey, dg.AssetsDefinition],
    asset: str,
    *,
    by: str,
    take_over: bool,
    apply: bool,
) -> dict[str, Any]:
    """Start the derived table of an asset again, or make the asset its owner.

    Raises:
        InvalidInput: The stream has no such derived table, or the code location does not have its source.
    """
    from kinesis_assets.derive import rebuild  # noqa: PLC0415  # definitions open no table
    from kinesis_assets.derive.derived_source import open_source  # noqa: PLC0415

    key, consumption, derivation = table_of(assets, opened, asset)
    table = consumption.open_table(opened)
    if take_over:
        result = rebuild.take_over(table, derivation.definition, by=by, apply=apply)
    else:
        source = open_source(derivation.source, opened.role, derivation.source_format)
        result = rebuild.rebuild(
            table, source, derivation.definition, derivation.partition_by, by=by, apply=apply
        )
    upstream = {other: each.upstream for other, each in derived_tables(assets).items()}
    below = sorted(other.to_user_string() for other in _all_below(key, upstream))
    recorded = result.recorded
    return {
        "asset": asset,
        "table": table.uri,
        "was": None if recorded is None else f"{recorded.owner or 'no asset'}: {recorded}",
        "becomes": f"{asset}: {derivation.definition}",
        "rows_deleted": 0 if take_over else result.rows,
        "lost_rows": result.lost,
        "below": [] if take_over else below,
        "reason": result.unreadable or (_UNKNOWN if result.lost is None else None),
        "applied": result.commit is not None,
    }


def _all_below(key: dg.AssetKey, upstream: Mapping[dg.AssetKey, dg.AssetKey]) -> set[dg.AssetKey]:
    """Return the tables that are derived from a table, also through others."""
    found: set[dg.AssetKey] = set()
    while more := {each for each, source in upstream.items() if source in {key, *found}} - found:
        found |= more
    return found


def build_rebuild_job(
    names: StreamNames, assets: Mapping[dg.AssetKey, dg.AssetsDefinition] | None = None
) -> dg.JobDefinition:
    """Build the job that starts a derived table of a stream again.

    The run's log and its output metadata report what it deletes. If it is applied, an observation of the
    table's asset does too.

    Args:
        assets: The assets of the code location. By default those of the one that runs the job.
    """

    @single_op_job(
        names,
        "rebuild",
        f"Starts a derived table of {names.stream} again: deletes its rows, so that its next run derives all "
        "rows of its source again. Without apply it only reports the plan.",
    )
    def job(context: dg.OpExecutionContext, config: RebuildConfig) -> None:
        facts = rebuild_asset(
            open_stream(context.resources, names),
            assets_of_location(context) if assets is None else assets,
            config.asset,
            by=context.run_id,
            take_over=config.take_over,
            apply=config.apply,
        )
        context.log.info(", ".join(f"{key}: {value}" for key, value in facts.items()))
        if config.apply:
            key = dg.AssetKey.from_user_string(config.asset)
            context.log_event(dg.AssetObservation(key, metadata=facts_metadata(facts)))
        else:
            context.log.info("Nothing was changed. Set apply to apply the change.")
        context.add_output_metadata(facts_metadata(facts))

    return job


class RedriveConfig(dg.Config):
    """The table whose bad records are decoded again."""

    asset: str = Field(description="Asset key of a typed table of the stream.")
    apply: bool = Field(default=False, description="Apply the change. Without it, only report the plan.")


def redrive_asset(
    opened: OpenStream, assets: Mapping[dg.AssetKey, dg.AssetsDefinition], asset: str, *, by: str, apply: bool
) -> "tuple[dict[str, Any], DerivedCommit | None]":
    """Decode the bad records of the table of an asset again.

    Returns:
        The facts that are reported, and the commit; None if nothing was changed.

    Raises:
        InvalidInput: The stream has no such table, or it keeps no bad records.
    """
    from kinesis_assets.ingest.executor_check import check_executors  # noqa: PLC0415

    key, consumption, derivation = table_of(assets, opened, asset)
    if consumption.of_errors:
        raise InvalidInput(
            f"asset {asset}: its records are the bad ones of {consumption.upstream.to_user_string()}; give "
            "the key of that asset"
        )
    if consumption.groups:
        raise InvalidInput(f"asset {asset}: it is a roll-up, which keeps no bad records")
    if consumption.is_router:
        raise InvalidInput(
            f"asset {asset}: it is a router, which routes each record once; start it and the tables below it "
            "again with `kinesis-assets rebuild`"
        )
    of_errors = [
        each.open_table(opened)
        for each in derived_tables(assets, opened.names).values()
        if each.of_errors and each.upstream == key
    ]
    table = consumption.open_table(opened)
    table.snapshot()  # a missing table is an error before Spark is started
    spark = opened.start_spark()
    check_executors(spark, f"table {table.uri}", table.folder)
    from kinesis_assets.derive.redrive import redrive  # noqa: PLC0415  # loads PySpark

    errors = next(iter(of_errors), None)
    result = redrive(spark, table, derivation, errors=errors, by=by, apply=apply)
    facts = {
        "asset": asset,
        "table": table.uri,
        "bad_records": result.records,
        "decoded": result.decoded,
        "still_bad": result.records - result.decoded,
        "reasons": [f"{count} x {reason}" for reason, count in result.reasons.items()],
        "applied": result.commit is not None,
    }
    return facts, result.commit


def build_redrive_job(
    names: StreamNames, assets: Mapping[dg.AssetKey, dg.AssetsDefinition] | None = None
) -> dg.JobDefinition:
    """Build the job that decodes the bad records of a derived table of a stream again.

    The run's log and its output metadata report what it decodes. If it changes the table, it materializes
    the table's asset.

    Args:
        assets: The assets of the code location. By default those of the one that runs the job.
    """

    @single_op_job(
        names,
        "redrive",
        f"Decodes the bad records of a typed table of {names.stream} again, after its schema or an "
        "expression was corrected. Without apply it only reports the plan.",
    )
    def job(context: dg.OpExecutionContext, config: RedriveConfig) -> None:
        opened = open_stream(context.resources, names)
        known = assets_of_location(context) if assets is None else assets
        facts, commit = redrive_asset(opened, known, config.asset, by=context.run_id, apply=config.apply)
        context.log.info(", ".join(f"{key}: {value}" for key, value in facts.items()))
        if commit is not None:
            key = dg.AssetKey.from_user_string(config.asset)
            _, consumption, _ = table_of(known, opened, config.asset)
            metadata = derived_metadata([commit], totals_of_table(consumption.open_table(opened)))
            context.log_event(dg.AssetMaterialization(key, metadata=metadata))
        elif config.apply:
            context.log.info("There is nothing to change: no record can be decoded now.")
        else:
            context.log.info("Nothing was changed. Set apply to apply the change.")
        reasons = "\n".join(facts["reasons"]) or None
        context.add_output_metadata(facts_metadata(facts | {"reasons": reasons}))

    return job
