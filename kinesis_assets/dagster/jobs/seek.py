"""The job that sets positions by hand."""

# No annotations of the future here: Dagster reads an op's config from the annotation itself.

from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from kinesis_assets.dagster.names import io_manager_key, op_key, raw_key
from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.position import Position

if TYPE_CHECKING:
    from kinesis_assets.dagster.io_manager import ShardIOManager


class SeekConfig(dg.Config):
    """Which shards are set where."""

    to: str = Field(description="A position, as for `start`: TRIM_HORIZON, AT_TIMESTAMP:2026-01-31T12:00:00Z")
    shards: list[str] = Field(default=[], description="Shard ids.")
    all_shards: bool = Field(default=False, description="Every shard that can go there, instead.")
    apply: bool = Field(default=False, description="Do it; else it is only told what would be done.")


def seek_name(stream: str) -> str:
    """The job of a stream."""
    return f"{raw_key(stream).to_python_identifier()}_seek"


def build_seek_job(stream: str) -> dg.JobDefinition:
    """The job that sets positions of a stream's shards; its run's id is kept with them.

    What it did to each shard, or would do, is in its log and in its output's metadata; what it did, on the
    raw asset's page too, as an observation.
    """
    manager_key = io_manager_key(stream)
    name = seek_name(stream)

    @dg.op(name=op_key(name), out=dg.Out(dg.Nothing), required_resource_keys={manager_key})
    def set_positions(context: dg.OpExecutionContext, config: SeekConfig) -> None:
        from kinesis_assets.seek.run import facts_of_moves, seek  # noqa: PLC0415  # its runs alone

        if config.all_shards == bool(config.shards):
            raise InvalidInput("name shards, or set all_shards")
        manager: ShardIOManager = getattr(context.resources, manager_key)
        result = seek(
            manager.client(),
            manager.positioned_table(),
            to=Position.parse(config.to),
            shard_ids=None if config.all_shards else config.shards,
            by=context.run_id,
            apply=config.apply,
        )
        facts = facts_of_moves(result)
        for told in facts:
            context.log.info(", ".join(f"{key}: {value}" for key, value in told.items()))
            if told["applied"]:
                context.log_event(
                    dg.AssetObservation(raw_key(stream), partition=told["shard"], metadata=told)
                )
        if not config.apply:
            context.log.info("Nothing was changed. Set apply to do it.")
        context.add_output_metadata({"applied": result.applied, "shards": dg.MetadataValue.json(facts)})

    @dg.job(
        name=name,
        description=f"Sets positions of {stream} by hand: forward with the gap recorded, or back with the "
        "rows after the new position taken out. Only tells what it would do, unless apply is set.",
    )
    def job() -> None:
        set_positions()

    return job
