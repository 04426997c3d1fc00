"""The job that decodes the bad records of a derived table again."""

# Dagster reads the types of an op's arguments, so annotations must not be strings.
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from kinesis_assets.dagster.consumption import derived_metadata, derived_tables, table_of
from kinesis_assets.dagster.dagster_internals import assets_of_location
from kinesis_assets.dagster.events.metadata import facts_metadata
from kinesis_assets.dagster.jobs.single_op_job import single_op_job
from kinesis_assets.dagster.stream import OpenStream, open_stream
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from kinesis_assets.derive.commit_entry import DerivedCommit


class RedriveConfig(dg.Config):
    """The table whose bad records are decoded again."""

    asset: str = Field(description="Asset key of a typed table of the stream.")
    apply: bool = Field(default=False, description="Apply the change. Without it, only report the plan.")


def redrive_asset(
    opened: OpenStream,
    assets: Mapping[dg.AssetKey, dg.AssetsDefinition],
    asset: str,
    *,
    by: str,
    apply: bool,
) -> "tuple[dict[str, Any], DerivedCommit | None]":
    """Decode the bad records of the table of an asset again.

    Returns:
        The facts that are reported, and the commit; None if nothing was changed.

    Raises:
        InvalidInput: The stream has no such table, or it keeps no bad records.
    """
    from kinesis_assets.ingest.executors import check_executors  # noqa: PLC0415

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
        each
        for each in derived_tables(assets, opened.names).values()
        if each.of_errors and each.upstream == key
    ]
    table = consumption.open_table(opened)
    table.snapshot()  # a missing table is an error before Spark is started
    spark = opened.start_spark()
    check_executors(spark, f"table {table.uri}", table.folder)
    from kinesis_assets.derive.redrive import redrive  # noqa: PLC0415  # loads PySpark

    errors = of_errors[0].open_table(opened) if of_errors else None
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
        names.redrive_job,
        f"Decodes the bad records of a typed table of {names.stream} again, after its schema or an "
        "expression was corrected. Without apply it only reports the plan.",
    )
    def job(context: dg.OpExecutionContext, config: RedriveConfig) -> None:
        from kinesis_assets.dagster.derived.derived_events import totals_of_table  # noqa: PLC0415  # only its runs need it

        opened = open_stream(context.resources, names)
        known = assets_of_location(context) if assets is None else assets
        facts, commit = redrive_asset(
            opened,
            known,
            config.asset,
            by=context.run_id,
            apply=config.apply,
        )
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
