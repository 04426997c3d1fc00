"""The deployed definitions, and streams that share a code location or are given by ARN."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import dagster as dg
import pytest
from dagster._core.snap.snap_to_yaml import default_values_yaml_from_type_snap

from kinesis_assets import build_kinesis_stream, derived_table, rollup
from kinesis_assets.definitions import defs
from kinesis_assets.errors import InvalidInput
from support.dagster_components import dagsters_own_warnings, loaded
from support.mentions import assert_mentions
from support.stream_names import io_manager_key, raw_key, stream_key

# The deployed definitions


@pytest.fixture(scope="module")
def deployed() -> dg.Definitions:
    return defs()


@dagsters_own_warnings
class TestDeployed:
    def test_it_has_the_orders_stream_its_raw_table_and_the_derived_ones(self, deployed):
        graph = deployed.resolve_asset_graph()
        derived = {dg.AssetKey("latest_orders"), dg.AssetKey("revenue_by_day")}
        assert graph.get_all_asset_keys() == {stream_key("orders"), raw_key("orders"), *derived}
        assert graph.get(raw_key("orders")).parent_keys == {stream_key("orders")}
        assert not graph.get(stream_key("orders")).is_materializable
        assert graph.get(raw_key("orders")).is_materializable

    def test_each_node_of_its_lineage_has_a_name_of_its_own(self, deployed):
        keys = deployed.resolve_asset_graph().get_all_asset_keys()
        assert len({key.path[-1] for key in keys}) == len(keys)  # the lineage shows the last part

    def test_both_assets_are_partitioned_by_the_same_shards(self, deployed):
        graph = deployed.resolve_asset_graph()
        found = {graph.get(key).partitions_def for key in (stream_key("orders"), raw_key("orders"))}
        assert found == {dg.DynamicPartitionsDefinition(name="kinesis/orders")}

    def test_a_range_of_shards_is_one_run(self, deployed):
        policy = deployed.resolve_asset_graph().get(raw_key("orders")).backfill_policy
        assert policy.policy_type.value == "SINGLE_RUN"

    def test_the_sensor_runs_by_default_and_targets_the_raw_table_and_what_is_derived_from_it(self, deployed):
        sensor = deployed.get_repository_def().get_sensor_def("kinesis__orders_raw_sensor")
        assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
        (target,) = sensor.targets
        selection = target.resolvable_to_job.selection
        derived = {dg.AssetKey("latest_orders"), dg.AssetKey("revenue_by_day")}
        assert selection.resolve(deployed.resolve_asset_graph()) == {raw_key("orders"), *derived}

    def test_runs_execute_in_the_process_that_dagster_starts_for_them(self, deployed):
        assert deployed.executor is dg.in_process_executor

    def test_the_metadata_of_the_raw_asset_has_its_columns_and_its_uri(self, monkeypatch):
        monkeypatch.setenv("ORDERS_TABLE", "s3://lake/orders")
        metadata = defs().resolve_asset_graph().get(raw_key("orders")).metadata
        columns = [column.name for column in metadata["dagster/column_schema"].columns]
        assert columns[:4] == ["stream", "shard_id", "sequence_number", "sub_sequence_number"]
        assert metadata["dagster/uri"] == "s3://lake/orders"


def test_two_streams_can_be_merged_into_one_code_location(tmp_path):
    both = dg.Definitions.merge(
        *(build_kinesis_stream(name, table=str(tmp_path / name)) for name in ("clicks", "page-views.v2"))
    )
    assert len(list(both.resolve_asset_graph().get_all_asset_keys())) == 4
    assert (both.resources or {}).keys() == {io_manager_key("clicks"), io_manager_key("page-views.v2")}
    assert both.get_repository_def().has_sensor_def("kinesis__page_views_v2_raw_sensor")


# The config of runs


def in_launchpad(definitions: dg.Definitions, job: str) -> str:
    """Return the config with which the launchpad of a job opens."""
    snapshot = definitions.resolve_job_def(job).get_job_snapshot()
    schema = snapshot.config_schema_snapshot
    root = schema.get_config_snap(snapshot.mode_def_snaps[0].root_config_key)
    return default_values_yaml_from_type_snap(schema, root)


def test_the_launchpad_of_a_job_shows_the_config_of_the_job_and_no_settings():
    clicks = build_kinesis_stream("clicks", table="clicks", region_name="eu-west-1")
    for job in clicks.jobs or ():
        assert "table" not in in_launchpad(clicks, job.name)
    assert "dry_run: false" in in_launchpad(clicks, "kinesis__clicks_raw_maintenance")


def test_the_config_of_a_run_cannot_change_the_settings():
    clicks = build_kinesis_stream("clicks", table="clicks")
    other = {"resources": {io_manager_key("clicks"): {"config": {"table": "other"}}}}
    job = clicks.resolve_job_def("kinesis__clicks_raw_maintenance")
    with pytest.raises(dg.DagsterInvalidConfigError, match="table"):
        job.execute_in_process(run_config=other)


@pytest.mark.slow
def test_a_run_has_the_settings_and_the_values_of_their_environment_variables(monkeypatch):
    monkeypatch.setenv("SETTING_OF_THE_TESTS", "eu-west-1")
    region = dg.EnvVar("SETTING_OF_THE_TESTS")
    clicks = build_kinesis_stream("clicks", table="lake", region_name=region, max_records=7)

    @dg.op(required_resource_keys={io_manager_key("clicks")})
    def settings(context):
        manager = getattr(context.resources, io_manager_key("clicks"))
        return manager.table, manager.kinesis.region_name, manager.max_records

    @dg.job(resource_defs=clicks.resources)
    def job():
        settings()

    assert job.execute_in_process().output_for_node("settings") == ("lake", "eu-west-1", 7)


# Streams by ARN

ARN = "arn:aws:kinesis:eu-west-1:111122223333:stream/clicks"


def manager_of(definitions: dg.Definitions) -> Any:
    return (definitions.resources or {})[io_manager_key("clicks")]


@pytest.mark.slow
def test_a_stream_by_arn_is_named_by_its_name_and_called_by_its_arn():
    by_arn, by_name = (build_kinesis_stream(each, table="clicks") for each in (ARN, "clicks"))
    keys = [each.resolve_asset_graph().get_all_asset_keys() for each in (by_arn, by_name)]
    assert keys[0] == keys[1] == {raw_key("clicks"), dg.AssetKey(["kinesis", "clicks"])}
    assert [job.name for job in by_arn.jobs] == [job.name for job in by_name.jobs]
    with manager_of(by_arn).process_config_and_initialize_cm() as manager:
        assert manager.stream == "clicks"
        assert str(manager.opened.client.address) == ARN
        assert manager.opened.client.settings.region_name == "eu-west-1"
    with manager_of(by_name).process_config_and_initialize_cm() as manager:
        assert str(manager.opened.client.address) == "clicks"


@dagsters_own_warnings
def test_the_component_accepts_an_arn():
    _, definitions = loaded(stream=ARN, table="clicks")
    with manager_of(definitions).process_config_and_initialize_cm() as manager:
        assert str(manager.opened.client.address) == ARN


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"stream": f"{ARN}/consumer/a:1"}, "is the ARN of a consumer"),
        ({"stream": "arn:aws:s3:::clicks"}, "invalid stream ARN"),
        ({"stream": ARN, "region_name": "us-east-1"}, "region eu-west-1, but region_name is us-east-1"),
    ],
)
def test_the_builder_refuses_an_invalid_arn(wrong, message):
    with pytest.raises(InvalidInput, match=message):
        build_kinesis_stream(**{"table": "clicks"} | wrong)


def test_two_streams_with_the_same_name_cannot_be_merged():
    both = [
        build_kinesis_stream(ARN.replace("111122223333", account), table=account)
        for account in ("111122223333", "444455556666")
    ]
    with pytest.raises(dg.DagsterInvariantViolationError, match="clicks_raw_io_manager"):
        dg.Definitions.merge(*both)


def test_two_streams_whose_names_differ_only_in_where_their_prefix_ends_cannot_be_merged():
    both = [
        build_kinesis_stream(name, table=name, key_prefix=prefix)
        for name, prefix in (("b__c", ["a"]), ("c", ["a", "b"]))
    ]
    with pytest.raises(dg.DagsterInvariantViolationError, match="a__b__c_raw_io_manager"):
        dg.Definitions.merge(*both)


# Sources of derived tables


def location(*assets: dg.AssetsDefinition, **streams: str) -> dg.RepositoryDefinition:
    built = [build_kinesis_stream(name, table=table) for name, table in streams.items()]
    return dg.Definitions.merge(dg.Definitions(assets=assets), *built).get_repository_def()


@pytest.mark.parametrize("decorate", [derived_table, partial(rollup, by=["item"])], ids=["table", "rollup"])
@pytest.mark.parametrize("upstream", ["nothing", "sales/orders", "kinesis/clicks"])
def test_an_upstream_table_that_the_code_location_lacks_is_refused_when_it_is_loaded(decorate, upstream):
    @decorate(source="clicks", table="lake/sessions", upstream=upstream)
    def sessions(rows):
        return rows

    @derived_table(source="clicks", table="lake/pages")
    def pages(rows):
        return rows

    with pytest.raises(InvalidInput) as caught:
        location(sessions, pages, clicks="lake/clicks")
    message = str(caught.value)
    assert re.match(r".*test_definitions\.py:\d+: upstream: the table sessions cannot consume ", message)
    assert_mentions(message, upstream, "pages")


@pytest.mark.parametrize("upstream", ["pages", "kinesis/clicks_raw", None])
def test_a_table_of_the_code_location_can_be_the_upstream_of_another(upstream):
    @derived_table(source="clicks", table="lake/pages")
    def pages(rows):
        return rows

    @derived_table(source="clicks", table="lake/sessions", upstream=upstream)
    def sessions(rows):
        return rows

    loaded = location(pages, sessions, clicks="lake/clicks", orders="lake/orders")
    sensor = loaded.get_sensor_def("kinesis__clicks_raw_automation")
    serialized = sensor.asset_selection.to_serializable_asset_selection(loaded.asset_graph)
    assert serialized.resolve(loaded.asset_graph) == {dg.AssetKey("pages"), dg.AssetKey("sessions")}
