"""The replay job: its config and its events."""

from __future__ import annotations

import os
import signal

import dagster as dg
import pytest
from deltalake import DeltaTable

from kinesis_assets.dagster.events.metadata import exact_values
from kinesis_assets.dagster.stream_names import op_key
from kinesis_assets.dagster.stream_project import run_replay
from kinesis_assets.errors import InvalidInput, ShardsNotCommitted
from support.stream_names import raw_key

A, B = (f"shardId-{number:012d}" for number in range(2))


def config(project, **values):
    """Return a run config of the job."""
    return {"ops": {op_key(project.names.job("replay")): {"config": values}}}


def job(project) -> dg.JobDefinition:
    return project.definitions.resolve_job_def(project.names.job("replay"))


@pytest.fixture
def missing(project, source, instance, tmp_path) -> list[str]:
    """The sequence numbers of one record per shard that the table lacks."""
    source.create(2)
    numbers = [source.put(shard_id, 3)[1] for shard_id in (A, B)]
    list(project.materialize(instance, [A, B]))
    table = DeltaTable(tmp_path / "table")
    predicate = " OR ".join(f"sequence_number = '{number}'" for number in numbers)
    assert table.delete(predicate)["num_deleted_rows"] == 2
    return numbers


@pytest.mark.usefixtures("spark")
def test_each_replayed_shard_is_materialized_with_the_batch_id_of_its_rows(
    project, instance, missing, tmp_path
):
    result = job(project).execute_in_process(
        instance=instance, run_config=config(project, start="TRIM_HORIZON")
    )

    assert result.success
    logged = instance.all_logs(result.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    events = [entry.asset_materialization for entry in logged]
    by_shard = {event.partition: exact_values(event) for event in events if event.partition is not None}
    assert {shard_id: (facts["state"], facts["rows"]) for shard_id, facts in by_shard.items()} == {
        A: ("filled", 1),
        B: ("filled", 1),
    }
    assert [by_shard[shard_id]["first_sequence_number"] for shard_id in (A, B)] == missing
    rows = DeltaTable(tmp_path / "table").to_pyarrow_table().to_pylist()
    assert len(rows) == 6
    batches = {row["batch_id"] for row in rows if row["sequence_number"] in missing}
    assert {str(batch) for batch in batches} == {facts["batch_id"] for facts in by_shard.values()}
    asset = instance.get_latest_materialization_event(raw_key(project.stream)).asset_materialization
    assert (asset.partition, asset.metadata["dagster/row_count"].value) == (None, 6)


@pytest.mark.usefixtures("spark", "missing")
def test_the_events_of_all_shards_are_stored_at_once(project, instance, monkeypatch):
    store, batches = instance.event_log_storage.store_event_batch, []

    def count(entries) -> None:
        batches.append([entry.dagster_event.partition for entry in entries])
        store(entries)

    monkeypatch.setattr(instance.event_log_storage, "store_event_batch", count)
    run_replay(project, instance, start="TRIM_HORIZON")
    assert [sorted(batch) for batch in batches if set(batch) != {None}] == [[A, B]]


@pytest.mark.usefixtures("spark", "missing")
def test_a_failed_shard_fails_the_run_and_the_other_is_materialized(project, instance, faults):
    faults.fail(status=400, code="AccessDeniedException", shard_id=A)

    with pytest.raises(ShardsNotCommitted):
        job(project).execute_in_process(
            instance=instance, run_config=config(project, start="TRIM_HORIZON", shards=[A, B])
        )

    logged = instance.fetch_materializations(raw_key(project.stream), limit=2).records
    latest, of_shard = (record.asset_materialization for record in logged)
    assert (latest.partition, latest.metadata["open shards"].value) == (None, 2)
    assert (of_shard.partition, of_shard.metadata["state"].value) == (B, "filled")
    by_shard = {facts["shard"]: facts for facts in run_replay(project, instance, start="TRIM_HORIZON")}
    assert (by_shard[A]["state"], by_shard[B]["state"]) == ("failed", "whole")
    assert "AccessDenied" in by_shard[A]["error"]


@pytest.mark.usefixtures("spark")
def test_a_stopped_replay_changes_nothing(project, instance, missing, faults, tmp_path):
    faults.stall()
    faults.before("GetRecords", lambda: os.kill(os.getpid(), signal.SIGTERM), times=1)
    with pytest.raises(dg.DagsterExecutionInterruptedError):
        job(project).execute_in_process(instance=instance, run_config=config(project, start="TRIM_HORIZON"))
    assert DeltaTable(tmp_path / "table").to_pyarrow_table().num_rows == 4
    faults.clear()
    events = run_replay(project, instance, start="TRIM_HORIZON")
    assert sorted(facts["first_sequence_number"] for facts in events) == sorted(missing)


def test_an_invalid_config_fails_before_spark_is_started(project, instance, source):
    source.create(1)
    with pytest.raises(InvalidInput, match="'yesterday'"):
        run_replay(project, instance, start="yesterday")
