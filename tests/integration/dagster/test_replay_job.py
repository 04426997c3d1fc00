"""The replay job: its config, and what it tells of each shard."""

from __future__ import annotations

import os
import signal
import time

import dagster as dg
import pytest
from deltalake import DeltaTable

from kinesis_assets.dagster.in_process import run_replay
from kinesis_assets.dagster.jobs.replay import replay_name
from kinesis_assets.dagster.names import op_key, raw_key
from kinesis_assets.errors import InvalidInput, ShardsNotCommitted

A, B = (f"shardId-{number:012d}" for number in range(2))


def config(project, **values):
    return {"ops": {op_key(replay_name(project.stream)): {"config": values}}}


def job(project) -> dg.JobDefinition:
    return project.definitions.resolve_job_def(replay_name(project.stream))


@pytest.fixture
def holed(project, source, instance, tmp_path) -> list[str]:
    """A table that lacks a record of each shard; their sequence numbers."""
    source.create(2)
    numbers = [source.put(shard_id, 3)[1] for shard_id in (A, B)]
    list(project.materialize(instance, [A, B]))
    table = DeltaTable(tmp_path / "table")
    predicate = " OR ".join(f"sequence_number = '{number}'" for number in numbers)
    assert table.delete(predicate)["num_deleted_rows"] == 2
    return numbers


@pytest.mark.usefixtures("spark")
def test_each_filled_shard_is_materialized_with_the_rows_batch(project, instance, holed, tmp_path):
    result = job(project).execute_in_process(
        instance=instance, run_config=config(project, start="TRIM_HORIZON")
    )

    assert result.success
    told = {
        event.materialization.partition: {
            name: value.value for name, value in event.materialization.metadata.items()
        }
        for event in result.filter_events(lambda event: event.is_step_materialization)
        for event in [event.step_materialization_data]
    }
    assert {shard_id: (facts["state"], facts["rows"]) for shard_id, facts in told.items()} == {
        A: ("filled", 1),
        B: ("filled", 1),
    }
    assert [told[shard_id]["first_sequence_number"] for shard_id in (A, B)] == holed
    rows = DeltaTable(tmp_path / "table").to_pyarrow_table().to_pylist()
    assert len(rows) == 6
    filled = {row["batch_id"] for row in rows if row["sequence_number"] in holed}
    assert {str(batch) for batch in filled} == {facts["batch_id"] for facts in told.values()}
    asset = instance.get_latest_materialization_event(raw_key(project.stream)).asset_materialization
    assert asset.partition in {A, B}


@pytest.mark.usefixtures("spark", "holed")
def test_a_failing_shard_fails_the_run_and_the_other_is_materialized(project, instance, faults):
    faults.fail(status=400, code="AccessDeniedException", shard_id=A)

    with pytest.raises(ShardsNotCommitted):
        job(project).execute_in_process(
            instance=instance, run_config=config(project, start="TRIM_HORIZON", shards=[A, B])
        )

    latest = instance.get_latest_materialization_event(raw_key(project.stream)).asset_materialization
    assert (latest.partition, latest.metadata["state"].value) == (B, "filled")
    told = {facts["shard"]: facts for facts in run_replay(project, instance, start="TRIM_HORIZON")}
    assert (told[A]["state"], told[B]["state"]) == ("failed", "whole")
    assert "AccessDenied" in told[A]["error"]


@pytest.mark.usefixtures("spark")
def test_a_replay_told_to_stop_ends_at_once_and_changes_nothing(project, instance, holed, faults, tmp_path):
    faults.stall()
    faults.before("GetRecords", lambda: os.kill(os.getpid(), signal.SIGTERM), times=1)
    began = time.monotonic()
    with pytest.raises(dg.DagsterExecutionInterruptedError):
        job(project).execute_in_process(instance=instance, run_config=config(project, start="TRIM_HORIZON"))
    assert time.monotonic() - began < 60
    assert DeltaTable(tmp_path / "table").to_pyarrow_table().num_rows == 4
    faults.clear()
    told = run_replay(project, instance, start="TRIM_HORIZON")
    assert sorted(facts["first_sequence_number"] for facts in told) == sorted(holed)


def test_a_config_that_cannot_be_meant_fails_before_spark_is_started(project, instance, source):
    source.create(1)
    with pytest.raises(InvalidInput, match="use a sequence number or a time"):
        run_replay(project, instance, start="yesterday")
