"""The job that starts a derived table again."""

# Dagster reads the types of an op's arguments, so annotations must not be strings.
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from kinesis_assets.dagster.consumption import consumption_of, table_of
from kinesis_assets.dagster.dagster_internals import assets_of_location
from kinesis_assets.dagster.events.metadata import facts_metadata
from kinesis_assets.dagster.jobs.single_op_job import single_op_job
from kinesis_assets.dagster.stream import OpenStream, open_stream
from kinesis_assets.dagster.stream_names import StreamNames

if TYPE_CHECKING:
    from kinesis_assets.derive.rebuild import Rebuild

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
    from kinesis_assets.derive.source_tables import open_source  # noqa: PLC0415

    key, consumption, derivation = table_of(assets, opened, asset)
    table = consumption.open_table(opened)
    if take_over:
        result = rebuild.take_over(table, derivation.definition, by=by, apply=apply)
    else:
        source = open_source(derivation.source, opened.role, derivation.source_format)
        result = rebuild.rebuild(
            table, source, derivation.definition, derivation.partition_by, by=by, apply=apply
        )
    below = [each.to_user_string() for each in assets if _consumes(assets[each], key)]
    return {
        "asset": asset,
        "table": table.uri,
        "was": _described(result),
        "becomes": f"{asset}: {derivation.definition}",
        "rows_deleted": 0 if take_over else result.rows,
        "lost_rows": result.lost,
        "below": [] if take_over else sorted(below),
        "reason": result.unreadable or (_UNKNOWN if result.lost is None else None),
        "applied": result.commit is not None,
    }


def _consumes(definition: dg.AssetsDefinition, key: dg.AssetKey) -> bool:
    consumption = consumption_of(definition)
    return consumption is not None and consumption.upstream == key


def _described(result: "Rebuild") -> str | None:
    recorded = result.recorded
    return None if recorded is None else f"{recorded.owner or 'no asset'}: {recorded}"


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
        names.rebuild_job,
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
