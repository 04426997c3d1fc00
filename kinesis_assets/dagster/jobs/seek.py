"""The job that sets positions."""

# Dagster reads the types of an op's arguments, so annotations must not be strings.

from collections.abc import Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from kinesis_assets.dagster.dagster_internals import report_events
from kinesis_assets.dagster.events.metadata import seek_metadata
from kinesis_assets.dagster.failures import shown_as_failures
from kinesis_assets.dagster.stream import open_stream
from kinesis_assets.dagster.stream_names import StreamNames, op_key
from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.position import Position


class SeekConfig(dg.Config):
    """The new position, and the shards to set."""

    to: str = Field(
        description="A position, as in `start`, such as TRIM_HORIZON or AT_TIMESTAMP:2026-01-31T12:00:00Z."
    )
    shards: list[str] = Field(default=[], description="Shard ids.")
    all_shards: bool = Field(
        default=False, description="Set every shard that can have the position, instead of naming shards."
    )
    apply: bool = Field(default=False, description="Apply the change. Without it, only report the plan.")


def report_moves(context: dg.OpExecutionContext, names: StreamNames, facts: Sequence[dict[str, Any]]) -> None:
    """Log the change of each shard, and record an observation of each to which it was applied.

    Args:
        context: The context of the op.
        names: The names of the stream's definitions.
        facts: As `facts_of_moves` returns them.
    """
    for shard in facts:
        context.log.info(", ".join(f"{key}: {value}" for key, value in shard.items()))
    report_events(
        context.get_step_execution_context(),
        (
            dg.AssetObservation(names.raw_key, partition=shard["shard"], metadata=seek_metadata(shard))
            for shard in facts
            if shard["applied"]
        ),
    )


def build_seek_job(names: StreamNames) -> dg.JobDefinition:
    """Build the job that sets the positions of a stream's shards. The positions record the run's id.

    The run's log and its output metadata report each shard's change. Applied changes are also recorded as
    observations of the raw asset.
    """
    name, stream = names.seek_job, names.stream

    @dg.op(name=op_key(name), out=dg.Out(dg.Nothing), required_resource_keys={names.io_manager_key})
    @shown_as_failures()
    def set_positions(context: dg.OpExecutionContext, config: SeekConfig) -> None:
        from kinesis_assets.operations.seek.run import facts_of_moves, seek  # noqa: PLC0415  # only its runs need it

        if config.all_shards == bool(config.shards):
            raise InvalidInput("give either shards or all_shards")
        opened = open_stream(context.resources, names)
        result = seek(
            opened.client,
            opened.table,
            to=Position.parse(config.to),
            shard_ids=None if config.all_shards else config.shards,
            by=context.run_id,
            apply=config.apply,
        )
        facts = facts_of_moves(result)
        report_moves(context, names, facts)
        if not config.apply:
            context.log.info("Nothing was changed. Set apply to apply the change.")
        context.add_output_metadata({"applied": result.applied, "shards": dg.MetadataValue.json(facts)})

    @dg.job(
        name=name,
        description=f"Sets positions of {stream}: forward, which records the gap, or back, which deletes the "
        "rows after the new position. Without apply it only reports the plan.",
    )
    def job() -> None:
        set_positions()

    return job
