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
    add_asset_metadata,
    initialized,
    loading_of,
    report_event,
    sensor_cursors,
    stored_state,
)

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


@pytest.mark.parametrize("missing", ["nothing", "get_step_execution_context"])
def test_an_event_is_reported(instance, caplog, missing):
    @dg.asset(key=KEY, output_required=False, partitions_def=dg.StaticPartitionsDefinition([A, B]))
    def letters(context):
        for partition, rows in ((A, 1), (B, 2)):
            event = dg.AssetMaterialization(KEY, partition=partition, metadata={"rows": rows})
            report_event(Without(context, missing), event)
        report_event(Without(context, missing), dg.AssetObservation(KEY, partition=A))
        yield from ()

    materialize(instance, letters)
    assert materialized(instance) == {A: 1, B: 2}
    assert len(instance.fetch_observations(KEY, limit=10).records) == 1
    assert ("has no DagsterEvent.asset_materialization" in caplog.text) == (missing != "nothing")


@pytest.mark.parametrize("missing", ["schedule_storage", "all_instigator_state"])
def test_no_cursor_is_read_without_the_private_names(caplog, missing):
    class Instance:
        schedule_storage = object()

        def all_instigator_state(self) -> list[Any]:
            return []

    assert sensor_cursors(Without(Instance(), missing), "letters_sensor") == []
    assert "the cursor of the sensor letters_sensor cannot be read" in caplog.text


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
    assert "a refresh does not see the previous state of a component" in caplog.text
