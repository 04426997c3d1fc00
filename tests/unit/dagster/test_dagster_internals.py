"""Private names of Dagster, and the fallback if a release lacks one."""

from __future__ import annotations

import sys
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage import tags
from dagster.components import DefsStateConfig, DefsStateConfigArgs

from kinesis_assets import KinesisResource, ShardIOManager
from kinesis_assets.dagster import dagster_internals, partition_ranges
from kinesis_assets.dagster.dagster_internals import (
    EVENTS_OF_A_BATCH,
    EventTimes,
    add_asset_metadata,
    initialized,
    loading_of,
    locations_of_sensor,
    report_events,
    report_outside_of_runs,
    sensor_cursors,
    separate_event_times,
    stored_state,
    unpartitioned_materializations,
)
from support.mentions import assert_mentions

pytestmark = pytest.mark.slow

A, B = "a", "b"
KEY = dg.AssetKey("letters")


class Without:
    """An object that lacks one attribute."""

    def __init__(self, whole: Any, missing: str) -> None:
        self._whole, self._missing = whole, missing

    def __getattr__(self, name: str) -> Any:
        if name == self._missing:
            raise AttributeError(name)
        return getattr(self._whole, name)


@pytest.fixture(autouse=True)
def warned_of_nothing() -> None:
    dagster_internals._warn.cache_clear()


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def materialized(instance: dg.DagsterInstance) -> dict[str, object]:
    records = instance.fetch_materializations(KEY, limit=10).records
    events = [record.asset_materialization for record in records]
    return {event.partition: event.metadata["rows"].value for event in events}


def materialize(instance: dg.DagsterInstance, asset: dg.AssetsDefinition, **resources: Any) -> None:
    dg.materialize(
        [asset],
        instance=instance,
        resources=resources,
        tags={partition_ranges.RANGE_START_TAG: A, partition_ranges.RANGE_END_TAG: B},
    )


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["nothing", "_metadata_accumulator"])
def test_metadata_is_added_to_each_partition(instance, caplog, missing):
    class Manager(dg.IOManager):
        def load_input(self, context) -> None: ...

        def handle_output(self, context, obj) -> None:  # noqa: ARG002
            step = context.step_context
            without = step if missing == "nothing" else Without(step, missing)
            add_asset_metadata(without, KEY, {A: {"rows": 1}, B: {"rows": 2}})

    @dg.asset(key=KEY, partitions_def=dg.StaticPartitionsDefinition([A, B]))
    def letters() -> int:
        return 0

    materialize(instance, letters, io_manager=Manager())
    assert materialized(instance) == {A: 1, B: 2}
    assert ("has no StepExecutionContext._metadata_accumulator" in caplog.text) == (missing != "nothing")


@pytest.mark.parametrize("missing", ["nothing", "_config_schema", "_convert_to_config_dictionary"])
def test_a_resource_is_initialized_without_an_instance(monkeypatch, caplog, missing):
    instances = []
    create = dg.DagsterInstance.ephemeral
    monkeypatch.setattr(dg.DagsterInstance, "ephemeral", lambda: instances.append(create()) or instances[-1])
    monkeypatch.setenv("SETTING_OF_THE_TESTS", "eu-west-1")
    kinesis = KinesisResource(region_name=dg.EnvVar("SETTING_OF_THE_TESTS"))
    manager = ShardIOManager(stream="clicks", table=dg.EnvVar("SETTING_OF_THE_TESTS"), kinesis=kinesis)
    with initialized(Without(manager, missing)) as ready:
        assert (ready.table, ready.kinesis.region_name) == ("eu-west-1", "eu-west-1")
    assert bool(instances) == (missing != "nothing")
    assert ("has no post_process_config" in caplog.text) == (missing != "nothing")


def test_a_resource_with_a_missing_environment_variable_is_refused(monkeypatch):
    monkeypatch.delenv("SETTING_OF_THE_TESTS", raising=False)
    manager = ShardIOManager(
        stream="clicks", table=dg.EnvVar("SETTING_OF_THE_TESTS"), kinesis=KinesisResource()
    )
    with pytest.raises(dg.DagsterInvalidConfigError, match="SETTING_OF_THE_TESTS"), initialized(manager):
        pass


def letters_reporting(report):
    """Return an asset whose body reports events of its partitions."""

    @dg.asset(key=KEY, output_required=False, partitions_def=dg.StaticPartitionsDefinition([A, B]))
    def letters(context):
        report(context, [observation_of(B, 2), materialization_of(A, 1)])
        yield from ()

    return letters


def materialization_of(partition: str, rows: int) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(KEY, partition=partition, metadata={"rows": rows})


def observation_of(partition: str, rows: int) -> dg.AssetObservation:
    metadata = {"rows": rows}
    return dg.AssetObservation(KEY, partition=partition, description="why", metadata=metadata)


def stored(instance: dg.DagsterInstance) -> list[list[dg.EventLogEntry]]:
    """Return the entries of the materializations and those of the observations, without their times."""
    fetches = (instance.fetch_materializations, instance.fetch_observations)
    found = [[record.event_log_entry for record in fetch(KEY, limit=10).records] for fetch in fetches]
    return [[entry._replace(timestamp=0.0) for entry in entries] for entries in found]


def test_events_in_a_batch_are_stored_as_they_are_one_by_one(instance):
    def report_twice(context, events):
        for event in events:
            context.log_event(event)
        report_events(context.get_step_execution_context(), events)

    materialize(instance, letters_reporting(report_twice))
    for at_once, alone in stored(instance):
        assert at_once == alone


@pytest.mark.parametrize("missing", ["nothing", "instance", "run_id"])
def test_without_the_private_names_events_are_stored_one_by_one(instance, caplog, missing):
    def report(context, events):
        report_events(Without(context.get_step_execution_context(), missing), events)

    materialize(instance, letters_reporting(report))
    assert [len(entries) for entries in stored(instance)] == [1, 1]
    assert ("has no EventLogStorage.store_event_batch" in caplog.text) == (missing != "nothing")


def test_a_batch_has_events_of_one_type_and_is_bounded(instance):
    batches = []

    class Storage:
        def store_event_batch(self, entries) -> None:
            batches.append([entry.dagster_event_type.value for entry in entries])

    class Instance:
        event_log_storage = Storage()

    class Step(Without):
        instance = Instance()

    def report(context, events):
        observation, materialization = events
        many = [materialization] * EVENTS_OF_A_BATCH
        report_events(Step(context.get_step_execution_context(), "nothing"), [observation, *many])

    materialize(instance, letters_reporting(report))
    materialized, observed = "ASSET_MATERIALIZATION", "ASSET_OBSERVATION"
    assert batches == [[materialized] * (EVENTS_OF_A_BATCH - 1), [observed], [materialized]]


SHARDS = [f"shard-{number}" for number in range(8)]


@pytest.fixture(params=["in memory", "SQLite"])
def any_instance(request, tmp_path, instance):
    """An instance with each of the storages that need no server."""
    if request.param == "in memory":
        yield instance
        return
    (tmp_path / "dagster.yaml").touch()
    with dg.DagsterInstance.from_config(str(tmp_path)) as on_disk:
        yield on_disk


def milliseconds(instance: dg.DagsterInstance) -> list[int]:
    """Return the times of all events of the asset as the pages of the web server get them, oldest first."""
    fetches = (instance.fetch_materializations, instance.fetch_observations)
    records = [record for fetch in fetches for record in fetch(KEY, limit=100).records]
    return [int(record.timestamp * 1000) for record in sorted(records, key=lambda each: each.storage_id)]


def assert_own_milliseconds(instance: dg.DagsterInstance, count: int) -> None:
    times = milliseconds(instance)
    assert len(set(times)) == len(times) == count
    assert times == sorted(times)


@pytest.mark.slow
def test_each_event_that_a_run_reports_has_its_own_millisecond(any_instance):
    @dg.asset(key=KEY, output_required=False, partitions_def=dg.StaticPartitionsDefinition(SHARDS))
    def letters(context):
        events = [materialization_of(shard, 1) for shard in SHARDS[2:]]
        report_events(context.get_step_execution_context(), events)
        report_events(
            context.get_step_execution_context(), [observation_of(shard, 0) for shard in SHARDS[:2]]
        )
        for _ in range(2):
            report_events(context.get_step_execution_context(), [dg.AssetObservation(KEY)])
        yield from ()

    dg.materialize([letters], instance=any_instance, tags=partition_ranges.range_tags(SHARDS))
    assert_own_milliseconds(any_instance, len(SHARDS) + 2)


@pytest.mark.slow
def test_each_event_that_dagster_reports_for_an_output_has_its_own_millisecond(any_instance, monkeypatch):
    monkeypatch.setenv("DAGSTER_EVENT_BATCH_SIZE", "100")

    @dg.asset(key=KEY, partitions_def=dg.StaticPartitionsDefinition(SHARDS))
    def letters(context) -> int:
        separate_event_times(context.get_step_execution_context())
        separate_event_times(context.get_step_execution_context())
        return 0

    tags = partition_ranges.range_tags(SHARDS)
    dg.materialize([letters], instance=any_instance, tags=tags, resources={"io_manager": dg.mem_io_manager})
    assert_own_milliseconds(any_instance, len(SHARDS))


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["nothing", "event_log_storage"])
def test_each_event_outside_of_runs_has_its_own_millisecond(any_instance, caplog, missing):
    events = [materialization_of(shard, 1) for shard in SHARDS]
    report_outside_of_runs(Without(any_instance, missing), events)
    assert set(materialized(any_instance)) == set(SHARDS)
    assert {record.run_id for record in any_instance.fetch_materializations(KEY, limit=10).records} == {""}
    if missing == "nothing":
        assert_own_milliseconds(any_instance, len(SHARDS))
    assert ("missing events are stored one by one" in caplog.text) == (missing != "nothing")


def test_the_times_of_events_are_the_clock_unless_their_millisecond_is_taken():
    times = EventTimes()
    assert [times.after(now) for now in (100.0004, 100.25, 100.25, 100.2501, 101.0)] == [
        100.0004,
        100.25,
        100.2515,
        100.2525,
        101.0,
    ]


def test_a_clock_that_was_set_back_sets_the_times_of_events_back():
    times = EventTimes()
    assert [times.after(now) for now in (5000.0, 4000.0, 4000.0)] == [5000.0, 4000.0, 4000.0015]


@pytest.mark.parametrize("missing", ["nothing", "get_asset_event_summary_records"])
def test_materializations_without_a_partition_are_found_among_those_of_partitions(instance, caplog, missing):
    def report(*events):
        for event in events:
            instance.report_runless_asset_event(event)

    def found(after, limit=100):
        records, through = unpartitioned_materializations(
            Without(instance, missing), KEY, after, since=0.0, limit=limit
        )
        return [record.asset_materialization.metadata["rows"].value for record in records], through

    assert found(None) == ([], None)
    total = dg.AssetMaterialization(KEY, metadata={"rows": 7})
    report(materialization_of(A, 3), total, materialization_of(B, 4))
    rows, through = found(None)
    assert rows == [7]
    assert found(through) == ([], through)
    report(materialization_of(A, 3), total, total)
    assert [len(found(through, limit)[0]) for limit in (1, 2, 3)] == [0, 1, 2]
    assert ("has no DagsterInstance.get_asset_event" in caplog.text) == (missing != "nothing")


@pytest.mark.parametrize("missing", ["schedule_storage", "all_instigator_state"])
def test_no_cursor_is_read_without_the_private_names(caplog, missing):
    class Instance:
        schedule_storage = object()

        def all_instigator_state(self) -> list[Any]:
            return []

    assert sensor_cursors(Without(Instance(), missing), "letters_sensor") == []
    assert_mentions(caplog.text, "cursor", "letters_sensor")


@pytest.mark.parametrize("missing", ["schedule_storage", "all_instigator_state"])
def test_no_code_locations_are_found_without_the_private_names(caplog, missing):
    class Instance:
        schedule_storage = object()

        def all_instigator_state(self) -> list[Any]:
            return []

    assert locations_of_sensor(Without(Instance(), missing), "letters_sensor", 0.0) == {}
    assert_mentions(caplog.text, "code locations", "letters_sensor")


def test_an_ephemeral_instance_has_no_cursors(instance, caplog):
    assert sensor_cursors(instance, "letters_sensor") == []
    assert caplog.text == ""


def test_the_tags_are_those_of_dagster():
    assert partition_ranges.PARTITION_TAG == tags.PARTITION_NAME_TAG
    assert partition_ranges.RANGE_START_TAG == tags.ASSET_PARTITION_RANGE_START_TAG
    assert partition_ranges.RANGE_END_TAG == tags.ASSET_PARTITION_RANGE_END_TAG


def test_components_that_are_loaded_together_have_the_same_loading():
    first, second = (dg.ComponentTree.for_test().load_context for _ in range(2))
    assert loading_of(first) is loading_of(first.for_component_loc(first.component_loc))
    assert loading_of(first) is not loading_of(second)


def test_without_the_tracker_each_context_is_a_loading_of_its_own(caplog):
    context = dg.ComponentTree.for_test().load_context
    lacking = Without(context, "component_tree")
    assert loading_of(lacking) is lacking
    assert "has no ComponentTree.state_tracker" in caplog.text


def test_without_the_load_context_no_earlier_state_is_known(monkeypatch, caplog, tmp_path):
    monkeypatch.setitem(sys.modules, "dagster._core.definitions.definitions_load_context", None)
    config = DefsStateConfig.from_args(DefsStateConfigArgs.local_filesystem(), default_key="key")
    assert stored_state(config, tmp_path) is None
    assert_mentions(caplog.text, "refresh", "previous state")
