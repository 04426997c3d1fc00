"""Dagster's events: each shard of a run is told for itself, as committed or as not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

import dagster as dg
import pytest
from deltalake import DeltaTable

from kinesis_assets.dagster.in_process import StreamProject
from kinesis_assets.dagster.names import io_manager_key, raw_key, shard_partitions, stream_key
from kinesis_assets.dagster.partition_ranges import range_tags
from kinesis_assets.errors import (
    InvalidInput,
    ParentUnfinished,
    ReadFailed,
    ShardsNotCommitted,
    ShardUnknown,
)
from kinesis_assets.ingest.plan import RunPlan  # noqa: TC001  # Dagster looks the body's types up
from kinesis_assets.kinesis.limits import Bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dagster._core.storage.partition_status_cache import AssetPartitionStatus

pytestmark = pytest.mark.usefixtures("spark")

A, B, C, D, E, F = (f"shardId-{number:012d}" for number in range(6))
MATERIALIZED, FAILED = "MATERIALIZED", "FAILED"


def run(project: StreamProject, instance: dg.DagsterInstance, *shard_ids: str) -> dg.ExecuteInProcessResult:
    """One run over all partitions there are, which the shards become in that order; it may fail."""
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
    """A run's materializations in the instance, by partition."""
    return _events(instance, result, dg.DagsterEventType.ASSET_MATERIALIZATION)


def observations(
    instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult
) -> dict[str, list[dict[str, dg.MetadataValue]]]:
    """A run's observations in the instance, by partition."""
    return _events(instance, result, dg.DagsterEventType.ASSET_OBSERVATION)


def _events(instance, result, kind):
    found: dict[str, list[dict[str, dg.MetadataValue]]] = {}
    for record in instance.get_records_for_run(result.run_id, of_type=kind).records:
        event = record.event_log_entry.asset_materialization or record.event_log_entry.asset_observation
        found.setdefault(event.partition, []).append(dict(event.metadata))
    return found


def failure_of(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult) -> str:
    """What the run's page says of a failed step."""
    (record,) = instance.get_records_for_run(result.run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records
    failure = record.event_log_entry.get_dagster_event().step_failure_data
    return failure.error.to_string()


def statuses(project: StreamProject, instance: dg.DagsterInstance) -> dict[str, str | None]:
    """What the asset's page shows for each partition."""
    partitions = shard_partitions(project.stream)
    keys = partitions.get_partition_keys(dynamic_partitions_store=instance)
    found: dict[str, AssetPartitionStatus | None] = dict(
        instance.get_status_by_partition(raw_key(project.stream), keys, partitions) or {}
    )
    return {key: status and status.value for key, status in found.items()}


def rows(project: StreamProject) -> list[tuple[str, str]]:
    """(shard, sequence number) of all rows in the table, in order."""
    with project.open_stream() as opened:
        table = DeltaTable(opened.table.folder.uri)
    columns = table.to_pyarrow_table(columns=["shard_id", "sequence_number"]).to_pylist()
    return sorted((row["shard_id"], row["sequence_number"]) for row in columns)


def values(metadata: dict[str, dg.MetadataValue]) -> dict[str, Any]:
    return {name: value.value for name, value in metadata.items()}


class TestOneFailsAndOneWaits:
    """A run over four shards: two are well, one fails, one waits for a parent that is not in the run."""

    @pytest.fixture
    def asked(self, source, faults) -> Sequence[str]:
        source.create(4)
        for shard_id in (A, B, C, D):
            source.put(shard_id, 10)
        source.split(D)
        faults.fail(status=400, code="KMSAccessDeniedException", shard_id=B)
        return (A, B, C, E)

    @pytest.fixture
    def result(self, project, instance, asked) -> dg.ExecuteInProcessResult:
        return run(project, instance, *asked)

    def test_the_committed_are_materialized_and_the_rest_observed(self, project, instance, result):
        assert materializations(instance, result).keys() == {A, C}
        assert {len(events) for events in materializations(instance, result).values()} == {1}
        assert instance.get_materialized_partitions(raw_key(project.stream)) == {A, C}
        assert statuses(project, instance) == {A: MATERIALIZED, B: FAILED, C: MATERIALIZED, E: FAILED}

        observed = {key: values(*events) for key, events in observations(instance, result).items()}
        assert {key: told["state"] for key, told in observed.items()} == {B: "failed", E: "waiting"}
        assert "KMSAccessDeniedException" in observed[B]["error"]
        assert f"waits for {D}" in observed[E]["error"]

    def test_the_run_fails_and_names_both_but_not_the_others(self, instance, result):
        assert instance.get_run_by_id(result.run_id).status is dg.DagsterRunStatus.FAILURE
        told = failure_of(instance, result)
        assert "2 of the run's shards not committed" in told
        assert f"{B}: reading from TRIM_HORIZON failed" in told
        assert f"{E}: waits for {D}" in told
        assert A not in told
        assert C not in told

    def test_only_the_rows_of_the_committed_are_in_the_table(self, project, result):
        del result
        landed = rows(project)
        assert {shard_id for shard_id, _ in landed} == {A, C}
        assert len(landed) == len(set(landed)) == 20

    def test_the_next_run_catches_up_with_both(self, project, instance, result, faults):
        del result
        faults.clear()
        again = run(project, instance, A, B, C, E, D)
        assert again.success, failure_of(instance, again)
        assert set(statuses(project, instance).values()) == {MATERIALIZED}
        assert len(rows(project)) == len(set(rows(project))) == 40


class TestAllGood:
    """A run over shards that are all well."""

    @pytest.fixture
    def numbers(self, source) -> dict[str, list[str]]:
        source.create(3)
        return {A: source.put(A, 5), B: source.put(B, 12), C: []}

    @pytest.fixture
    def told(self, project, instance, numbers) -> dict[str, dict[str, dg.MetadataValue]]:
        result = run(project, instance, *numbers)
        assert result.success, failure_of(instance, result)
        assert observations(instance, result) == {}
        found = materializations(instance, result)
        assert {key: len(events) for key, events in found.items()} == {A: 1, B: 1, C: 1}
        return {key: events[0] for key, events in found.items()}

    def test_each_shard_has_one_materialization_with_its_own_metadata(self, told, numbers, stream):
        def facts(shard_id, through, count):
            size = 5 * count
            proof = (
                {
                    "first_sequence_number": numbers[shard_id][0],
                    "last_sequence_number": numbers[shard_id][-1],
                    "checksum": str(sum(crc32(f"{number}:0".encode()) for number in numbers[shard_id])),
                }
                if count
                else {}
            )
            return proof | {
                "stream": stream,
                "shard": shard_id,
                "state": "committed",
                "from": "TRIM_HORIZON",
                "through": through,
                "rows": count,
                "bytes": size,
                "bad_records": 0,
                "outside_hash_range": 0,
                "lag_ms": 0,
                "time_to_loss_ms": 24 * 3_600_000,
                "files": 1 if count else 0,
            }

        measured = {key: values(metadata) for key, metadata in told.items()}
        seconds = {metadata.pop("seconds") for metadata in measured.values()}
        versions = {metadata.pop("table_version") for metadata in measured.values()}
        batches = {metadata.pop("batch_id") for metadata in measured.values()}
        assert measured == {
            A: facts(A, f"AFTER_SEQUENCE_NUMBER:{numbers[A][-1]}", 5),
            B: facts(B, f"AFTER_SEQUENCE_NUMBER:{numbers[B][-1]}", 12),
            C: facts(C, "TRIM_HORIZON", 0),
        }
        assert all(0 < each < 60 for each in seconds)
        assert len(batches) == 1
        assert versions == {2}  # the table, the frozen positions, this run

    def test_positions_are_text_and_what_plots_is_a_number(self, told):
        kinds = {name: type(value) for name, value in told[B].items()}
        text, number = dg.TextMetadataValue, dg.IntMetadataValue
        assert kinds == {
            "stream": text,
            "shard": text,
            "state": text,
            "from": text,
            "through": text,
            "rows": number,
            "bytes": number,
            "first_sequence_number": text,
            "last_sequence_number": text,
            "checksum": text,
            "bad_records": number,
            "outside_hash_range": number,
            "lag_ms": number,
            "time_to_loss_ms": number,
            "files": number,
            "table_version": number,
            "batch_id": text,
            "seconds": dg.FloatMetadataValue,
        }


def test_a_single_partition_run_has_one_materialization_with_metadata(source, project, instance):
    source.create(1)
    source.put(A, 3)
    result = run(project, instance, A)
    assert result.success
    ((metadata,),) = materializations(instance, result).values()
    assert values(metadata)["rows"] == 3


def test_a_child_waits_while_its_parent_in_the_same_run_is_bounded(source, make_project, instance):
    source.create(1)
    source.put(A, 30)
    source.split(A)
    source.put(B, 5)
    project = make_project(max_records=20)

    result = run(project, instance, A, B, C)

    assert {key: values(*events)["rows"] for key, events in materializations(instance, result).items()} == {
        A: 20
    }
    waiting = {key: values(*events)["error"] for key, events in observations(instance, result).items()}
    assert waiting.keys() == {B, C}
    assert all(f"waits for {A}" in error for error in waiting.values())
    assert statuses(project, instance) == {A: MATERIALIZED, B: FAILED, C: FAILED}


def test_parents_then_children_are_read_in_one_run(source, project, instance):
    source.create(1)
    source.put(A, 30)
    source.split(A)
    source.put(B, 5)

    result = run(project, instance, A, B, C)

    assert result.success, failure_of(instance, result)
    told = {key: values(*events) for key, events in materializations(instance, result).items()}
    assert {key: (facts["state"], facts["rows"]) for key, facts in told.items()} == {
        A: ("finished", 30),
        B: ("committed", 5),
        C: ("committed", 0),
    }


def test_a_finished_shard_is_materialized_again_without_being_read(source, project, instance, faults):
    source.create(1)
    source.put(A, 3)
    source.split(A)
    assert run(project, instance, A).success
    read_before = faults.count("GetRecords", A)

    result = run(project, instance, A)

    assert result.success
    ((metadata,),) = materializations(instance, result).values()
    assert (values(metadata)["state"], values(metadata)["rows"]) == ("finished", 0)
    assert faults.count("GetRecords", A) == read_before
    assert len(rows(project)) == 3


def test_a_failing_shard_keeps_what_it_had_read(source, project, instance, faults):
    source.create(2)
    numbers = source.put(A, 30)
    source.put(B, 10)
    faults.page_size(10)
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=A, after=2)

    result = run(project, instance, A, B)

    assert not result.success
    ((metadata,),) = observations(instance, result).values()
    told = values(metadata)
    assert (told["state"], told["rows"], told["bytes"], told["files"]) == ("failed", 20, 100, 1)
    assert told["through"] == f"AFTER_SEQUENCE_NUMBER:{numbers[19]}"
    assert [number for shard_id, number in rows(project) if shard_id == A] == numbers[:20]
    assert materializations(instance, result).keys() == {B}


def test_a_partition_added_by_hand_is_refused_by_name_while_its_neighbours_commit(
    source, stream, project, instance
):
    source.create(2)
    source.put(A, 10)
    source.put(B, 10)

    result = run(project, instance, A, "bogus", B)

    assert instance.get_run_by_id(result.run_id).status is dg.DagsterRunStatus.FAILURE
    assert materializations(instance, result).keys() == {A, B}
    assert statuses(project, instance) == {A: MATERIALIZED, "bogus": FAILED, B: MATERIALIZED}
    ((metadata,),) = observations(instance, result).values()
    told = values(metadata)
    assert told["error"] == f"bogus: stream {stream} has no such shard; remove the partition"
    assert told.keys().isdisjoint({"from", "through", "lag_ms"})
    assert told["error"] in failure_of(instance, result)
    assert len(rows(project)) == 20


def test_the_error_of_a_run_carries_each_shards_own_error(source, stream, project, instance, faults):
    source.create(2)
    source.put(B, 1)
    source.split(B)
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=A)
    job = project.definitions.resolve_implicit_global_asset_job_def()
    instance.add_dynamic_partitions(str(shard_partitions(stream).name), [A, "bogus", C])

    with pytest.raises(ShardsNotCommitted) as caught:
        job.execute_in_process(
            instance=instance, tags=range_tags([A, C]), asset_selection=[raw_key(stream)], raise_on_error=True
        )

    kinds = {shard_id: type(error) for shard_id, error in caught.value.errors.items()}
    assert kinds == {A: ReadFailed, "bogus": ShardUnknown, C: ParentUnfinished}


def test_an_asset_that_loads_the_raw_one_is_told_to_open_the_table_itself(
    source, stream, project, instance, tmp_path
):
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

    assert str(caught.value) == (
        f"kinesis/{stream}_raw is not the stream {stream}, and only that can be loaded. To read the table in "
        f"an asset, add it to deps and open {tmp_path / 'table'} in the body"
    )


class TestOwnBody:
    """An asset of the user's own between the builder's stream and its I/O manager."""

    @pytest.fixture
    def own_project(self, project, stream) -> Callable[..., StreamProject]:
        def make(body, within: StreamProject = project):
            key = io_manager_key(stream)
            external, _ = within.definitions.assets or ()

            @dg.asset(
                key=raw_key(stream),
                partitions_def=shard_partitions(stream),
                ins={"plan": dg.AssetIn(key=stream_key(stream), input_manager_key=key)},
                io_manager_key=key,
            )
            def own(plan: RunPlan):
                return body(plan)

            definitions = dg.Definitions(assets=[external, own], resources=within.definitions.resources)
            return StreamProject(stream, definitions)

        return make

    def test_it_may_narrow_the_plan(self, source, own_project, instance):
        source.create(2)
        numbers = source.put(A, 30)
        source.put(B, 4)
        project = own_project(lambda plan: plan.narrowed(Bounds(max_records=7)))

        result = run(project, instance, A, B)

        assert result.success, failure_of(instance, result)
        told = {key: values(*events) for key, events in materializations(instance, result).items()}
        assert {key: facts["rows"] for key, facts in told.items()} == {A: 7, B: 4}
        assert [number for shard_id, number in rows(project) if shard_id == A] == numbers[:7]

    def test_it_cannot_widen_the_plan(self, source, make_project, own_project, instance):
        source.create(1)
        source.put(A, 30)
        bounded = make_project(max_records=5)
        project = own_project(lambda plan: plan.narrowed(Bounds(max_records=20)), within=bounded)

        assert run(project, instance, A).success
        assert len(rows(project)) == 5

    @pytest.mark.parametrize("returned", [None, [], {"rows": 1}], ids=["nothing", "list", "dict"])
    def test_returning_something_else_is_one_clear_error(
        self, returned, source, stream, own_project, instance
    ):
        source.create(1)
        source.put(A, 3)
        project = own_project(lambda _: returned)

        result = run(project, instance, A)

        assert not result.success
        told = failure_of(instance, result)
        assert InvalidInput.__name__ in told
        assert (
            f"kinesis/{stream}_raw returned {type(returned).__name__}; "
            "its body must return its plan, or a plan with fewer shards" in told
        )
        assert materializations(instance, result) == {}
        assert rows(project) == []
