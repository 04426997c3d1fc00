"""The job that sets positions by hand. It changes nothing without `apply`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.dagster.stream_names import op_key
from kinesis_assets.errors import InvalidInput
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.kinesis.position import Position
from support.stream_names import raw_key

if TYPE_CHECKING:
    import dagster as dg

    from kinesis_assets.table.positions.positions import StreamPositions

pytestmark = pytest.mark.slow

SHARD = "shardId-000000000000"


@pytest.fixture
def numbers(project, source) -> list[str]:
    """The sequence numbers of three records in the table."""
    source.create(1)
    numbers = source.put(SHARD, 3)
    with project.open_stream() as opened:
        client, table = opened.client, opened.table
        plan = plan_run(client, table, asked=[SHARD], policy=ReadPolicy())
        execute_run(land_group, client, table, plan)
    return numbers


def positions(project) -> StreamPositions:
    with project.open_stream() as opened:
        found = opened.table.snapshot().positions(opened.client.describe().identity)
    assert found is not None
    return found


def run(project, instance, **config: Any) -> dg.ExecuteInProcessResult:
    name = project.names.job("seek")
    job = project.definitions.resolve_job_def(name)
    return job.execute_in_process(instance=instance, run_config={"ops": {op_key(name): {"config": config}}})


def test_it_changes_nothing_without_apply(project, instance, numbers):
    before = positions(project)
    result = run(project, instance, to=f"AFTER_SEQUENCE_NUMBER:{numbers[0]}", shards=[SHARD])
    (output,) = result.filter_events(lambda event: event.is_successful_output)
    (moved,) = output.step_output_data.metadata["shards"].value
    assert (moved["direction"], moved["rows_removed"], moved["applied"]) == ("back", 2, False)
    assert positions(project) == before


def test_its_run_id_is_committed_with_the_positions(project, instance, numbers):
    result = run(project, instance, to=f"AFTER_SEQUENCE_NUMBER:{numbers[0]}", all_shards=True, apply=True)
    now = positions(project)
    (seek,) = now.shards[SHARD].seeks
    assert {seek.by, now.by} == {result.run_id}
    assert now.shards[SHARD].position == Position.after(numbers[0])


def test_each_moved_shard_has_an_event_of_the_raw_asset(project, instance, numbers):
    run(project, instance, to=f"AFTER_SEQUENCE_NUMBER:{numbers[0]}", all_shards=True, apply=True)
    (record,) = instance.fetch_observations(raw_key(project.stream), limit=9).records
    observation = record.asset_observation
    assert observation is not None
    facts = {name: value.value for name, value in observation.metadata.items()}
    assert facts.pop("exact")["to"] == f"AFTER_SEQUENCE_NUMBER:{numbers[0]}"
    assert (observation.partition, facts) == (SHARD, {"direction": "back", "rows removed": 2})


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize("which", [{}, {"shards": [SHARD], "all_shards": True}], ids=["none", "both"])
def test_shards_are_given_either_by_name_or_as_all(project, instance, which):
    with pytest.raises(InvalidInput, match="all_shards"):
        run(project, instance, to="LATEST", **which)
