"""Runs of a stream's raw asset in this process, and what they recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
from deltalake import DeltaTable

from kinesis_assets.dagster.events.metadata import events_of, exact_values
from kinesis_assets.dagster.partition_ranges import range_tags
from support.stream_names import raw_key, shard_partitions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dagster._core.storage.partition_status_cache import AssetPartitionStatus

    from kinesis_assets.dagster.stream_project import StreamProject


def execute(
    project: StreamProject, instance: dg.DagsterInstance, *shard_ids: str
) -> dg.ExecuteInProcessResult:
    """Add partitions for shards, and run them; the run may fail.

    Only the shards may be partitions: their order is that of the range.
    """
    partitions = shard_partitions(project.stream)
    instance.add_dynamic_partitions(str(partitions.name), list(shard_ids))
    job = project.definitions.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(
        instance=instance,
        tags=range_tags(shard_ids),
        asset_selection=[raw_key(project.stream)],
        raise_on_error=False,
    )


def materializations(
    instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult
) -> dict[str, list[dict[str, dg.MetadataValue]]]:
    """Return the metadata of a run's materializations by partition."""
    return _events(instance, result, dg.DagsterEventType.ASSET_MATERIALIZATION)


def observations(
    instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult
) -> dict[str, list[dict[str, dg.MetadataValue]]]:
    """Return the metadata of a run's observations by partition, without that of the totals."""
    return _events(instance, result, dg.DagsterEventType.ASSET_OBSERVATION)


def _events(instance, result, kind):
    found: dict[str, list[dict[str, dg.MetadataValue]]] = {}
    for record in instance.get_records_for_run(result.run_id, of_type=kind).records:
        event = record.event_log_entry.asset_materialization or record.event_log_entry.asset_observation
        if event.partition is not None:
            found.setdefault(event.partition, []).append(dict(event.metadata))
    return found


def totals(instance: dg.DagsterInstance, run_id: str) -> list[dict[str, Any]]:
    """Return the metadata of the events of a run about the stream as a whole, as plain values."""
    return [plain(dict(event.metadata)) for event in events_of(instance, run_id) if event.partition is None]


def failure_message(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult) -> str:
    """Return the error of a run's failed step as the UI shows it."""
    (record,) = instance.get_records_for_run(result.run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records
    failure = record.event_log_entry.get_dagster_event().step_failure_data
    return failure.error.to_string()


def partition_statuses(project: StreamProject, instance: dg.DagsterInstance) -> dict[str, str | None]:
    """Return the status of each partition as the UI shows it."""
    partitions = shard_partitions(project.stream)
    keys = partitions.get_partition_keys(dynamic_partitions_store=instance)
    found: dict[str, AssetPartitionStatus | None] = dict(
        instance.get_status_by_partition(raw_key(project.stream), keys, partitions) or {}
    )
    return {key: status and status.value for key, status in found.items()}


def rows_in_table(project: StreamProject) -> list[tuple[str, str]]:
    """Return shard and sequence number of all rows in the table, sorted."""
    with project.open_stream() as opened:
        table = DeltaTable(opened.table.folder.uri)
    columns = table.to_pyarrow_table(columns=["shard_id", "sequence_number"]).to_pylist()
    return sorted((row["shard_id"], row["sequence_number"]) for row in columns)


def exact(metadata: Mapping[str, dg.MetadataValue]) -> dict[str, Any]:
    """Return the facts in the metadata of an event by their names for code."""
    return exact_values(dg.AssetObservation("any", metadata=metadata))


def plain(metadata: dict[str, dg.MetadataValue]) -> dict[str, Any]:
    """Return metadata as plain values."""
    return {name: value.value for name, value in metadata.items()}
