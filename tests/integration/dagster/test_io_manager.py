"""Events of the I/O manager: each shard of a run is materialized, or observed with its error."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import dagster as dg
import pytest

from kinesis_assets.dagster.partition_ranges import range_tags
from kinesis_assets.errors import (
    ParentUnfinished,
    ReadFailed,
    ShardsNotCommitted,
    ShardUnknown,
)
from support.dagster_runs import (
    exact,
    execute,
    failure_message,
    materializations,
    observations,
    partition_statuses,
    plain,
    rows_in_table,
    totals,
)
from support.mentions import assert_mentions
from support.stream_names import raw_key, shard_partitions

if TYPE_CHECKING:
    from collections.abc import Sequence


pytestmark = pytest.mark.usefixtures("spark")

A, B, C, D, E, F = (f"shardId-{number:012d}" for number in range(6))
MATERIALIZED, FAILED = "MATERIALIZED", "FAILED"


class TestPartialFailure:
    """A run over four shards: two commit, one fails, and one waits for a parent outside of the run."""

    @pytest.fixture
    def requested(self, source, faults) -> Sequence[str]:
        source.create(4)
        for shard_id in (A, B, C, D):
            source.put(shard_id, 10)
        source.split(D)
        faults.fail(status=400, code="KMSAccessDeniedException", shard_id=B)
        return (A, B, C, E)

    @pytest.fixture
    def result(self, project, instance, requested) -> dg.ExecuteInProcessResult:
        return execute(project, instance, *requested)

    def test_committed_shards_are_materialized_and_the_others_observed(self, project, instance, result):
        assert materializations(instance, result).keys() == {A, C}
        assert {len(events) for events in materializations(instance, result).values()} == {1}
        assert instance.get_materialized_partitions(raw_key(project.stream)) == {A, C}
        assert partition_statuses(project, instance) == {
            A: MATERIALIZED,
            B: FAILED,
            C: MATERIALIZED,
            E: FAILED,
        }

        observed = {key: plain(*events) for key, events in observations(instance, result).items()}
        assert {key: facts["state"] for key, facts in observed.items()} == {B: "failed", E: "waiting"}
        assert "KMSAccessDeniedException" in observed[B]["error"]
        assert f"waits for {D}" in observed[E]["error"]

    def test_the_run_fails_and_names_only_the_shards_that_did_not_commit(self, instance, result):
        assert instance.get_run_by_id(result.run_id).status is dg.DagsterRunStatus.FAILURE
        error = failure_message(instance, result)
        assert error.startswith("kinesis_assets.errors.ShardsNotCommitted: stream ")
        assert_mentions(error, f"{B}: ", "TRIM_HORIZON", f"{E}: waits for {D}")
        assert A not in error
        assert C not in error

    def test_the_error_card_lists_the_reason_of_each_shard(self, instance, result):
        (record,) = instance.get_records_for_run(
            result.run_id, of_type=dg.DagsterEventType.STEP_FAILURE
        ).records
        failure = record.event_log_entry.get_dagster_event().step_failure_data.user_failure_data
        reasons = plain(failure.metadata)
        assert reasons.keys() == {B, E}
        assert "KMSAccessDeniedException" in reasons[B]

    def test_the_events_of_failed_shards_start_with_the_reason(self, instance, result):
        records = instance.get_records_for_run(
            result.run_id, of_type=dg.DagsterEventType.ASSET_OBSERVATION
        ).records
        events = [record.event_log_entry.asset_observation for record in records]
        described = {event.partition: event.description for event in events if event.partition}
        assert described[B].startswith(f"{B}: reading from TRIM_HORIZON failed")
        assert f"waits for {D}" in described[E]

    def test_the_totals_count_the_failed_shard(self, instance, result):
        (facts,) = totals(instance, result.run_id)
        assert (facts["total rows"], facts["open shards"], facts["failed shards"]) == (20, 6, 1)
        assert facts["shards behind"] == 2  # the failed one, and the parent that no run has read
        assert facts["worst lag (s)"] > 0

    def test_only_rows_of_committed_shards_are_in_the_table(self, project, result):
        del result
        landed = rows_in_table(project)
        assert {shard_id for shard_id, _ in landed} == {A, C}
        assert len(landed) == len(set(landed)) == 20

    def test_the_next_run_reads_the_remaining_records(self, project, instance, result, faults):
        del result
        faults.clear()
        again = execute(project, instance, A, B, C, E, D)
        assert again.success, failure_message(instance, again)
        assert set(partition_statuses(project, instance).values()) == {MATERIALIZED}
        assert len(rows_in_table(project)) == len(set(rows_in_table(project))) == 40


class TestSuccess:
    """A run whose shards all commit."""

    @pytest.fixture
    def numbers(self, source) -> dict[str, list[str]]:
        source.create(3)
        return {A: source.put(A, 5), B: source.put(B, 12), C: []}

    @pytest.fixture
    def metadata(self, project, instance, numbers) -> dict[str, dict[str, dg.MetadataValue]]:
        result = execute(project, instance, *numbers)
        assert result.success, failure_message(instance, result)
        assert observations(instance, result) == {}
        found = materializations(instance, result)
        assert {key: len(events) for key, events in found.items()} == {A: 1, B: 1, C: 1}
        return {key: events[0] for key, events in found.items()}

    def test_each_shard_has_one_materialization_with_its_own_metadata(self, metadata, numbers, stream):
        def expected(shard_id, through, count):
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
                "state": "committed",
                "from": "TRIM_HORIZON",
                "through": through,
                "rows": count,
                "bytes": 5 * count,
                "bad_records": 0,
                "outside_hash_range": 0,
                "lag_ms": 0,
                "time_to_loss_ms": 24 * 3_600_000,
                "files": 1 if count else 0,
            }

        measured = {key: exact(values) for key, values in metadata.items()}
        for shard_id in (A, B):
            assert measured[shard_id].pop("first_arrival") <= measured[shard_id].pop("last_arrival")
        seconds = {values.pop("seconds") for values in measured.values()}
        versions = {values.pop("table_version") for values in measured.values()}
        batches = {values.pop("batch_id") for values in measured.values()}
        assert measured == {
            A: expected(A, f"AFTER_SEQUENCE_NUMBER:{numbers[A][-1]}", 5),
            B: expected(B, f"AFTER_SEQUENCE_NUMBER:{numbers[B][-1]}", 12),
            C: expected(C, "TRIM_HORIZON", 0),
        }
        assert all(0 < each < 60 for each in seconds)
        assert len(batches) == 1
        assert versions == {2}  # after the creation of the table and the freeze

    def test_people_see_each_fact_once_and_measurements_are_numbers(self, metadata):
        kinds = {name: type(value) for name, value in metadata[B].items()}
        number, fraction = dg.IntMetadataValue, dg.FloatMetadataValue
        assert kinds == {
            "state": dg.TextMetadataValue,
            "rows": number,
            "size (MB)": fraction,
            "lag (s)": fraction,
            "time to loss (h)": fraction,
            "first arrival": dg.TimestampMetadataValue,
            "last arrival": dg.TimestampMetadataValue,
            "speed (MB/s)": fraction,
            "bad records": number,
            "exact": dg.JsonMetadataValue,
        }


def test_a_run_reports_its_totals_and_the_rows_of_the_table(source, project, instance):
    source.create(2)
    source.put(A, 5)
    source.put(B, 12)
    first = execute(project, instance, A, B)
    source.put(B, 3)
    second = execute(project, instance, A, B)
    (before,), (after,) = totals(instance, first.run_id), totals(instance, second.run_id)
    assert (before["total rows"], before["total size (MB)"], before["dagster/row_count"]) == (
        17,
        85 / 1e6,
        17,
    )
    assert (after["total rows"], after["total size (MB)"], after["dagster/row_count"]) == (3, 15 / 1e6, 20)
    assert (after["worst lag (s)"], after["least time to loss (h)"], after["open shards"]) == (0, 24, 2)
    assert after["newest arrival"] >= before["newest arrival"]
    assert after["dagster/size_bytes"] > before["dagster/size_bytes"] > 0


def test_the_last_materialization_of_a_run_has_its_totals_also_without_new_records(source, project, instance):
    source.create(2)
    execute(project, instance, A, B)
    source.put(B, 3)
    result = execute(project, instance, A)
    (facts,) = totals(instance, result.run_id)
    assert (facts["total rows"], facts["open shards"], facts["failed shards"]) == (0, 2, 0)
    (latest,) = instance.fetch_materializations(raw_key(source.name), limit=1).records
    assert plain(latest.asset_materialization.metadata) == facts


def test_a_check_is_red_in_the_run_in_which_a_shard_fails(source, project, instance, faults):
    source.create(2)
    source.put(B, 3)
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=A)
    result = execute(project, instance, A, B)
    key = dg.AssetCheckKey(raw_key(source.name), "every_shard_read")
    record = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
    assert (record.run_id, record.evaluation.passed) == (result.run_id, False)
    assert_mentions(record.evaluation.description, "1 of 2 shards failed", A, "KMSAccessDenied")


def test_a_run_of_a_single_partition_has_one_materialization(source, project, instance):
    source.create(1)
    source.put(A, 3)
    result = execute(project, instance, A)
    assert result.success
    ((metadata,),) = materializations(instance, result).values()
    assert plain(metadata)["rows"] == 3


def test_a_child_waits_if_the_run_does_not_finish_its_parent(source, make_project, instance):
    source.create(1)
    source.put(A, 30)
    source.split(A)
    source.put(B, 5)
    project = make_project(max_records=20)

    result = execute(project, instance, A, B, C)

    assert {key: plain(*events)["rows"] for key, events in materializations(instance, result).items()} == {
        A: 20
    }
    waiting = {key: plain(*events)["error"] for key, events in observations(instance, result).items()}
    assert waiting.keys() == {B, C}
    assert all(f"waits for {A}" in error for error in waiting.values())
    assert partition_statuses(project, instance) == {A: MATERIALIZED, B: FAILED, C: FAILED}


def test_a_finished_shard_is_materialized_again_without_being_read(source, project, instance, faults):
    source.create(1)
    source.put(A, 3)
    source.split(A)
    assert execute(project, instance, A).success
    read_before = faults.count("GetRecords", A)

    result = execute(project, instance, A)

    assert result.success
    ((metadata,),) = materializations(instance, result).values()
    assert (plain(metadata)["state"], plain(metadata)["rows"]) == ("finished", 0)
    assert faults.count("GetRecords", A) == read_before
    assert len(rows_in_table(project)) == 3


def test_a_failed_shard_commits_what_it_has_read(source, project, instance, faults):
    source.create(2)
    numbers = source.put(A, 30)
    source.put(B, 10)
    faults.page_size(10)
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=A, after=2)

    result = execute(project, instance, A, B)

    assert not result.success
    ((metadata,),) = observations(instance, result).values()
    facts = exact(metadata)
    assert (facts["state"], facts["rows"], facts["bytes"], facts["files"]) == ("failed", 20, 100, 1)
    assert facts["through"] == f"AFTER_SEQUENCE_NUMBER:{numbers[19]}"
    assert [number for shard_id, number in rows_in_table(project) if shard_id == A] == numbers[:20]
    assert materializations(instance, result).keys() == {B}


def test_a_partition_that_is_no_shard_fails_while_the_others_commit(source, stream, project, instance):
    source.create(2)
    source.put(A, 10)
    source.put(B, 10)

    result = execute(project, instance, A, "bogus", B)

    assert instance.get_run_by_id(result.run_id).status is dg.DagsterRunStatus.FAILURE
    assert materializations(instance, result).keys() == {A, B}
    assert partition_statuses(project, instance) == {A: MATERIALIZED, "bogus": FAILED, B: MATERIALIZED}
    ((metadata,),) = observations(instance, result).values()
    facts = exact(metadata)
    assert_mentions(facts["error"], "bogus: ", stream, "partition")
    assert facts.keys().isdisjoint({"from", "through", "lag_ms"})
    assert facts["error"] in failure_message(instance, result)
    assert len(rows_in_table(project)) == 20


def test_the_error_of_a_run_contains_the_error_of_each_shard(source, stream, project, instance, faults):
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
