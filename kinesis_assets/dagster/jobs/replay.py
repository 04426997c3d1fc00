"""The job that reads a range behind the positions again.

Dagster looks at the types of an op's arguments, so annotations are no strings here but where they must be.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import dagster as dg
from dagster._core.storage.tags import MAX_RUNTIME_SECONDS_TAG
from pydantic import Field

from kinesis_assets.dagster.graceful_stop import Closing
from kinesis_assets.dagster.names import io_manager_key, op_key, raw_key
from kinesis_assets.dagster.run_events import QUIET, told_by
from kinesis_assets.errors import RunCanceled, ShardsNotCommitted
from kinesis_assets.spark.session import begin_session, end_tagged, failures_told, prepare, tagged

if TYPE_CHECKING:
    from kinesis_assets.dagster.in_process import StreamProject
    from kinesis_assets.dagster.io_manager import ShardIOManager
    from kinesis_assets.replay.outcome import ReplayOutcome, ReplayResult

_MOST_SECONDS = 24 * 3600
"""A replay is one commit, and ends its reading by itself: Dagster's bound for runs would end it with nothing
done."""


class ReplayConfig(dg.Config):
    """What is read again of which shards."""

    start: str = Field(
        description="From here on, inclusive: a time as 2026-01-31T12:00:00Z, a sequence number of the one "
        "shard that is named, or TRIM_HORIZON, the oldest record that the stream still has."
    )
    end: str = Field(
        default="",
        description="Up to here: a time, exclusive, or a sequence number, inclusive; never beyond the "
        "committed position, which it is by default.",
    )
    shards: list[str] = Field(default=[], description="Shard ids; all shards by default.")


def replay_name(stream: str) -> str:
    """The job of a stream."""
    return f"{raw_key(stream).to_python_identifier()}_replay"


def build_replay_job(stream: str) -> dg.JobDefinition:
    """The job that fills what a stream's table lacks of a range.

    Each shard of which rows were filled in is materialized; of each other one it is observed what was found.
    """
    manager_key = io_manager_key(stream)
    name = replay_name(stream)

    @dg.op(name=op_key(name), required_resource_keys={manager_key})
    def read_again(context: dg.OpExecutionContext, config: ReplayConfig) -> None:
        from kinesis_assets.replay.run import replay  # noqa: PLC0415  # its runs alone
        from kinesis_assets.replay.task import fill  # noqa: PLC0415
        from kinesis_assets.replay.window import Span  # noqa: PLC0415  # its runs alone

        span = Span.of(config.start, config.end)
        manager: ShardIOManager = getattr(context.resources, manager_key)
        table = manager.positioned_table()
        # A table that is missing, or another stream's, is refused before anything is started or written.
        table.snapshot().refuse_another(manager.client().describe().identity)
        manager.begin_heartbeat(table, context.get_step_execution_context())
        prepare(manager.pyspark.spark_config)
        with failures_told(stream):
            spark = manager.pyspark.spark_session
        tag = f"kinesis-{context.run_id}"
        # Nothing of a replay is kept but its one commit: told to stop, it gives up at once.
        closing = Closing(0.0, give_up=partial(end_tagged, spark, tag))
        with closing.holding_back(), failures_told(stream), tagged(spark, tag):
            result = replay(
                partial(fill, spark),
                manager.client(),
                table,
                span,
                config.shards,
                by=context.run_id,
            )
        for shard_id, outcome in result.outcomes.items():
            event = dg.AssetMaterialization if outcome.rows else dg.AssetObservation
            metadata = _metadata(stream, outcome, result)
            context.log_event(event(raw_key(stream), partition=shard_id, metadata=metadata))
        if result.errors:
            raise ShardsNotCommitted(stream, result.errors)

    @dg.job(
        name=name,
        tags={MAX_RUNTIME_SECONDS_TAG: str(_MOST_SECONDS)},
        description=f"Reads a range of {stream} again and fills in what the table lacks of it. It moves no "
        "position and adds no duplicate.",
    )
    def job() -> None:
        read_again()

    return job


def run_replay(
    project: "StreamProject",
    instance: dg.DagsterInstance,
    *,
    start: str,
    end: str = "",
    shard_ids: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Run the job in this process.

    Returns:
        The metadata of each asked shard's event.

    Raises:
        RunCanceled: The run was interrupted.
        KinesisAssetsError: The run failed as a whole; nothing is known to be filled.
    """
    from kinesis_assets.replay.window import Span  # noqa: PLC0415  # its runs alone

    Span.of(start, end)
    name, run_id = replay_name(project.stream), str(uuid4())
    config = {"start": start, "end": end, "shards": list(shard_ids)}
    with project.manager() as manager:
        # The job refuses the same; here it is known before Spark is started.
        table = manager.positioned_table()
        table.snapshot().refuse_another(manager.client().describe().identity)
        prepare(manager.spark_config)
        table.require_writable()
        begin_session(manager.spark_config)
    run_config = {"ops": {op_key(name): {"config": config}}, **QUIET}
    try:
        # Each shard's event says whether all of it could be read, and why not.
        with suppress(ShardsNotCommitted):
            project.definitions.resolve_job_def(name).execute_in_process(
                instance=instance, run_id=run_id, run_config=run_config
            )
    except dg.DagsterExecutionInterruptedError as interrupt:
        raise RunCanceled(project.stream, told_by(instance, run_id)) from interrupt
    return told_by(instance, run_id)


def _metadata(stream: str, outcome: "ReplayOutcome", result: "ReplayResult") -> dict[str, Any]:
    """Names as in the event of a run."""
    facts: dict[str, str | float | None] = {
        "stream": stream,
        "shard": outcome.shard_id,
        "state": str(outcome.state),
        "from": str(outcome.start) if outcome.start else None,
        "through": str(outcome.through) if outcome.through else None,
        "rows": outcome.rows,
        "bytes": outcome.bytes,
        "first_sequence_number": outcome.first_sequence_number,
        "last_sequence_number": outcome.last_sequence_number,
        "checksum": None if outcome.checksum is None else str(outcome.checksum),
        "gaps_filled": outcome.gaps_filled or None,
        "seconds": round(result.seconds, 3),
        "table_version": result.version,
        "batch_id": str(result.batch_id) if outcome.rows else None,
        "error_class": type(outcome.error).__name__ if outcome.error else None,
        "error": str(outcome.error) if outcome.error else None,
    }
    return {name: value for name, value in facts.items() if value is not None}
