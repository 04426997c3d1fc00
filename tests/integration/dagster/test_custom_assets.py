"""Assets of a user around the I/O manager: one that narrows the plan, and one that loads the raw asset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import pytest

from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.errors import (
    InvalidInput,
)
from kinesis_assets.ingest.plan import RunPlan  # noqa: TC001  # Dagster looks the body's types up
from kinesis_assets.kinesis.reading.range import Bounds
from support.dagster_runs import execute, failure_message, materializations, plain, rows_in_table
from support.mentions import assert_mentions
from support.stream_names import io_manager_key, raw_key, shard_partitions, stream_key

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = pytest.mark.usefixtures("spark")

A, B, C, D, E, F = (f"shardId-{number:012d}" for number in range(6))
MATERIALIZED, FAILED = "MATERIALIZED", "FAILED"


def test_an_asset_cannot_load_the_raw_asset_as_an_input(source, stream, project, instance, tmp_path):
    source.create(1)
    partitions = shard_partitions(stream)
    instance.add_dynamic_partitions(str(partitions.name), [A])

    @dg.asset(partitions_def=partitions, ins={"records": dg.AssetIn(key=raw_key(stream))})
    def parsed(records) -> None:
        del records

    both = dg.Definitions.merge(project.definitions, dg.Definitions(assets=[parsed]))
    with pytest.raises(InvalidInput) as caught:
        both.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance, partition_key=A, asset_selection=[parsed.key]
        )

    assert f"kinesis/{stream}_raw" in str(caught.value)
    assert str(tmp_path / "table") in str(caught.value)


class TestCustomAsset:
    """A user's asset between the builder's stream and its I/O manager."""

    @pytest.fixture
    def custom_project(self, project, stream) -> Callable[..., StreamProject]:
        def make(body, within: StreamProject = project):
            key = io_manager_key(stream)
            external, _ = within.definitions.assets or ()

            @dg.asset(
                key=raw_key(stream),
                partitions_def=shard_partitions(stream),
                ins={"plan": dg.AssetIn(key=stream_key(stream), input_manager_key=key)},
                io_manager_key=key,
            )
            def custom(plan: RunPlan):
                return body(plan)

            definitions = dg.Definitions(assets=[external, custom], resources=within.definitions.resources)
            return StreamProject(stream, definitions)

        return make

    def test_a_custom_asset_may_narrow_the_plan(self, source, custom_project, instance):
        source.create(2)
        numbers = source.put(A, 30)
        source.put(B, 4)
        project = custom_project(lambda plan: plan.narrowed(Bounds(max_records=7)))

        result = execute(project, instance, A, B)

        assert result.success, failure_message(instance, result)
        events = {key: plain(*events) for key, events in materializations(instance, result).items()}
        assert {key: facts["rows"] for key, facts in events.items()} == {A: 7, B: 4}
        assert [number for shard_id, number in rows_in_table(project) if shard_id == A] == numbers[:7]

    def test_a_custom_asset_cannot_widen_the_plan(self, source, make_project, custom_project, instance):
        source.create(1)
        source.put(A, 30)
        bounded = make_project(max_records=5)
        project = custom_project(lambda plan: plan.narrowed(Bounds(max_records=20)), within=bounded)

        assert execute(project, instance, A).success
        assert len(rows_in_table(project)) == 5

    @pytest.mark.parametrize("returned", [None, [], {"rows": 1}], ids=["nothing", "list", "dict"])
    def test_a_custom_asset_must_return_a_plan(self, returned, source, stream, custom_project, instance):
        source.create(1)
        source.put(A, 3)
        project = custom_project(lambda _: returned)

        result = execute(project, instance, A)

        assert not result.success
        error = failure_message(instance, result)
        assert_mentions(error, InvalidInput.__name__, f"kinesis/{stream}_raw", type(returned).__name__)
        assert materializations(instance, result) == {}
        assert rows_in_table(project) == []
