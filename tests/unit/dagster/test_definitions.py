"""The deployed definitions, their YAML, the public names, and dagster.yaml."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
import yaml
from dagster._config import process_config, validate_config
from dagster._core.instance.config import dagster_instance_config_schema
from dagster.components.testing import create_defs_folder_sandbox
from dagster_aws.s3.compute_log_manager import S3ComputeLogManager

import kinesis_assets
from kinesis_assets import KinesisStreamComponent, build_kinesis_stream
from kinesis_assets.dagster.names import io_manager_key, raw_key, stream_key
from kinesis_assets.dagster.settings import StreamSettings
from kinesis_assets.definitions import defs
from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.start_positions import StartPositions

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(kinesis_assets.__file__).parent
PROJECT = PACKAGE.parent
DAGSTER_YAML = PROJECT / "dagster.yaml"

# Dagster warns of names that it uses itself when it loads components.
dagsters_own_warnings = pytest.mark.filterwarnings(
    "ignore::dagster.BetaWarning",
    "ignore::dagster.PreviewWarning",
    "ignore:`parse_obj_as` is deprecated:DeprecationWarning",
)


# The deployed definitions


@pytest.fixture
def deployed() -> dg.Definitions:
    return defs()


@dagsters_own_warnings
class TestDeployed:
    def test_it_has_the_orders_stream_and_its_raw_table(self, deployed):
        graph = deployed.resolve_asset_graph()
        assert graph.get_all_asset_keys() == {stream_key("orders"), raw_key("orders")}
        assert graph.get(raw_key("orders")).parent_keys == {stream_key("orders")}
        assert not graph.get(stream_key("orders")).is_materializable
        assert graph.get(raw_key("orders")).is_materializable

    def test_both_assets_are_partitioned_by_the_same_shards(self, deployed):
        graph = deployed.resolve_asset_graph()
        found = {graph.get(key).partitions_def for key in (stream_key("orders"), raw_key("orders"))}
        assert found == {dg.DynamicPartitionsDefinition(name="kinesis/orders")}

    def test_a_range_of_shards_is_one_run(self, deployed):
        policy = deployed.resolve_asset_graph().get(raw_key("orders")).backfill_policy
        assert policy.policy_type.value == "SINGLE_RUN"

    def test_the_sensor_runs_by_default_and_targets_the_raw_table(self, deployed):
        sensor = deployed.get_repository_def().get_sensor_def("kinesis__orders_raw_sensor")
        assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
        (target,) = sensor.targets
        selection = target.resolvable_to_job.selection
        assert selection.resolve(deployed.resolve_asset_graph()) == {raw_key("orders")}

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


# The YAML form


@dagsters_own_warnings
def test_the_value_of_a_template_is_converted_and_checked(monkeypatch):
    fields = {"stream": "clicks", "table": "clicks", "max_records": "{{ env.SETTING_OF_THE_TESTS }}"}
    monkeypatch.setenv("SETTING_OF_THE_TESTS", "7")
    assert loaded(**fields)[0].max_records == 7
    monkeypatch.setenv("SETTING_OF_THE_TESTS", "0")
    with pytest.raises(Exception, match="KinesisStreamComponent") as caught:
        loaded(**fields)
    assert str(caught.value.__cause__) == "max_records must be above 0, not 0"


def loaded(**attributes: Any) -> tuple[dg.Component, dg.Definitions]:
    """A component of those attributes and its definitions, as a defs folder gives them."""
    contents = {"type": "kinesis_assets.KinesisStreamComponent", "attributes": attributes}
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(component_cls=KinesisStreamComponent, defs_yaml_contents=contents)
        with sandbox.load_component_and_build_defs(defs_path=path) as found:
            return found


def test_two_components_can_share_a_code_location():
    definitions = dg.Definitions.merge(
        *(build_kinesis_stream(stream, table=f"/{stream}") for stream in ("clicks", "orders"))
    )
    repository = definitions.get_repository_def()
    repository.load_all_definitions()
    for stream in ("clicks", "orders"):
        key = raw_key(stream).to_python_identifier()
        for job in ("maintenance", "replay", "seek"):
            assert repository.has_job(f"{key}_{job}")


@dagsters_own_warnings
def test_the_component_builds_the_same_definitions_as_the_builder(tmp_path):
    attributes = {
        "stream": "clicks",
        "table": str(tmp_path),
        "start": "AT_TIMESTAMP:2026-01-31T12:00:00Z",
        "region_name": "eu-central-1",
        "endpoint_url": "http://127.0.0.1:1",
        "profile_name": "lake",
        "sdk_parser": True,
        "spark_config": {"spark.master": "local[2,4]"},
        "max_records": 10,
        "max_bytes": 20,
        "max_seconds": 30.0,
        "max_run_records": 100,
        "max_run_bytes": 200,
        "max_run_seconds": 300.0,
        "max_bad_records": 0,
        "on_data_loss": "continue",
        "on_recreated": "restart",
        "stop_timeout": 50.0,
        "follow_for": 1800.0,
        "commit_interval": 2.0,
        "sensor_interval_seconds": 40,
        "retention_days": 60,
        "maintenance_schedule": "0 4 * * *",
    }
    assert attributes.keys() == StreamSettings.model_fields.keys()
    assert attributes.keys() == inspect.signature(build_kinesis_stream).parameters.keys()

    component, definitions = loaded(**attributes)

    assert component == KinesisStreamComponent(**attributes)
    key = io_manager_key("clicks")
    ours, builders = (
        (given.resources or {})[key] for given in (definitions, build_kinesis_stream(**attributes))
    )
    assert ours.model_dump() == builders.model_dump()
    told = ours.model_dump()
    told |= told.pop("kinesis")
    (sensor,) = definitions.sensors or ()
    told["sensor_interval_seconds"] = sensor.minimum_interval_seconds
    (schedule,) = definitions.schedules or ()
    told["maintenance_schedule"] = schedule.cron_schedule
    assert {name: told[name] for name in attributes} == attributes


@dagsters_own_warnings
@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_starts_of_shards_are_read_from_the_yaml_or_from_another_file(tmp_path, suffix):
    starts = {"shardId-000000000000": "AFTER_SEQUENCE_NUMBER:5:1", "default": "LATEST"}
    stored = tmp_path / f"starts.{suffix}"
    stored.write_text(json.dumps(starts) if suffix == "json" else yaml.safe_dump(starts), encoding="utf-8")
    key = io_manager_key("clicks")
    inline, from_file = (
        (loaded(stream="clicks", table="clicks", start=start)[1].resources or {})[key].opened.policy.starts
        for start in (starts, f"file://{stored}")
    )
    assert inline == from_file == StartPositions.of(starts)


def at(name: str, message: str) -> str:
    """An error of a field, with the line of the YAML."""
    return rf"attributes\.{name} at .*defs\.yaml:\d+`\n *{message}"


@dagsters_own_warnings
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"colour": "red"}, at("colour", "Extra inputs are not permitted")),
        ({"table": None}, at("table", "Input should be a valid string")),
        ({"start": "YESTERDAY"}, "invalid position 'YESTERDAY': start with one of TRIM_HORIZON, LATEST"),
        (
            {"start": {"shardId-000000000000": "NOW"}},
            "invalid position 'NOW': start with one of TRIM_HORIZON",
        ),
        ({"start": "file:///no/such/file"}, "start file:///no/such/file cannot be read"),
        ({"start": "AT_TIMESTAMP:noon"}, "write it as AT_TIMESTAMP:2026-01-31T12:00:00Z"),
        ({"on_data_loss": "ignore"}, at("on_data_loss", "Input should be 'fail' or 'continue'")),
        ({"on_recreated": "merge"}, at("on_recreated", "Input should be 'fail' or 'restart'")),
        ({"max_run_seconds": 0}, at("max_run_seconds", "Input should be greater than 0")),
        ({"max_bad_records": -1}, at("max_bad_records", "Input should be greater than or equal to 0")),
        ({"stream": "page views"}, "invalid stream name 'page views': give 1 to 128 letters, digits"),
        (
            {"table": "gs://lake/clicks"},
            "give a path, s3://bucket/prefix or file:///path",
        ),
    ],
    ids=[
        "unknown field",
        "no table",
        "no start",
        "no start of a shard",
        "no file of starts",
        "no time",
        "no loss policy",
        "no recreation policy",
        "no time for a run",
        "bad count",
        "no name",
        "no table URI",
    ],
)
def test_an_invalid_yaml_is_reported_in_one_line(wrong, told):
    with pytest.raises(Exception, match="KinesisStreamComponent") as caught:
        loaded(**{"stream": "clicks", "table": "clicks"} | wrong)
    assert re.search(told, str(caught.value.__cause__))


@pytest.mark.parametrize(
    "wrong",
    [
        {"stream": ""},
        {"stream": "a" * 129},
        {"table": " "},
        {"max_records": 0},
        {"max_bytes": -1},
        {"max_seconds": 0.0},
    ],
    ids=" ".join,
)
def test_the_builder_refuses_invalid_settings(wrong):
    with pytest.raises(InvalidInput) as caught:
        build_kinesis_stream(**{"stream": "clicks", "table": "clicks"} | wrong)
    assert "\n" not in str(caught.value)


# Streams by ARN

ARN = "arn:aws:kinesis:eu-west-1:111122223333:stream/clicks"


def manager_of(definitions: dg.Definitions) -> Any:
    return (definitions.resources or {})[io_manager_key("clicks")]


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
    ("wrong", "told"),
    [
        ({"stream": f"{ARN}/consumer/a:1"}, "is the ARN of a consumer"),
        ({"stream": "arn:aws:s3:::clicks"}, "invalid stream ARN"),
        ({"stream": ARN, "region_name": "us-east-1"}, "region eu-west-1, but region_name is us-east-1"),
    ],
)
def test_the_builder_refuses_an_invalid_arn(wrong, told):
    with pytest.raises(InvalidInput, match=told):
        build_kinesis_stream(**{"table": "clicks"} | wrong)


def test_two_streams_with_the_same_name_cannot_be_merged():
    both = [
        build_kinesis_stream(ARN.replace("111122223333", account), table=account)
        for account in ("111122223333", "444455556666")
    ]
    with pytest.raises(dg.DagsterInvariantViolationError, match="clicks_raw_io_manager"):
        dg.Definitions.merge(*both)


# The public names


def errors() -> set[str]:
    """Return the whole tree of errors, which is public."""
    module = importlib.import_module("kinesis_assets.errors")
    return {name for name, value in vars(module).items() if isinstance(value, type)}


def test_every_public_name_is_loaded_on_first_use():
    assert set(kinesis_assets.__all__) == {*kinesis_assets._HOMES, *errors()}
    assert kinesis_assets.__all__ == sorted(kinesis_assets.__all__)
    assert dir(kinesis_assets) == kinesis_assets.__all__
    for name in kinesis_assets.__all__:
        assert getattr(kinesis_assets, name).__name__ == name


def test_type_checkers_see_every_public_name():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    imports = [
        (alias.name, node.module)
        for guarded in ast.walk(tree)
        if isinstance(guarded, ast.If) and ast.unparse(guarded.test) == "TYPE_CHECKING"
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    homes = dict.fromkeys(errors(), "kinesis_assets.errors")
    homes |= {name: f"kinesis_assets.{home}" for name, home in kinesis_assets._HOMES.items()}
    assert dict(imports) == homes
    assert len(imports) == len(homes)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'kinesis_assets' has no attribute 'nothing'"):
        _ = kinesis_assets.nothing


# dagster.yaml


@pytest.fixture
def dagster_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(DAGSTER_YAML, tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def production(dagster_home: Path) -> Iterator[dg.DagsterInstance]:
    """An instance with this project's dagster.yaml."""
    with dg.DagsterInstance.get() as instance:
        assert Path(instance.root_directory) == dagster_home
        yield instance


def test_runs_of_the_same_shard_are_not_concurrent(production):
    (limit,) = production.get_concurrency_config().run_queue_config.tag_concurrency_limits
    assert limit == {
        "key": "dagster/partition",
        "value": {"applyLimitPerUniqueValue": True},
        "limit": 1,
    }


def test_the_number_of_concurrent_runs_is_limited(production):
    assert production.get_concurrency_config().run_queue_config.max_concurrent_runs == 4


def test_a_run_whose_worker_died_is_retried_and_a_failed_one_is_not(production):
    assert production.run_monitoring_enabled
    assert production.run_retries_enabled
    assert not production.run_retries_retry_on_asset_or_op_failure


def test_telemetry_is_disabled(production):
    assert not production.telemetry_enabled
    assert not production.nux_enabled


@pytest.fixture
def with_everything() -> dict[str, Any]:
    """Return dagster.yaml with every setting uncommented."""
    lines: list[str] = []
    in_block = False
    for line in DAGSTER_YAML.read_text().splitlines():
        in_block = line.startswith("#") and (in_block or re.fullmatch(r"# \w+:", line) is not None)
        lines.append(line.removeprefix("# ") if in_block else line)
    settings: dict[str, Any] = yaml.safe_load("\n".join(lines))
    return settings


def test_the_settings_for_postgresql_and_s3_are_valid(with_everything):
    assert {"storage", "compute_logs"} <= with_everything.keys()
    result = validate_config(dagster_instance_config_schema(), with_everything)
    assert result.success, result.errors


def test_the_settings_for_s3_are_those_of_its_compute_log_manager(with_everything, monkeypatch):
    monkeypatch.setenv("DAGSTER_COMPUTE_LOGS_BUCKET", "logs")
    logs = with_everything["compute_logs"]
    assert (logs["module"], logs["class"]) == (
        S3ComputeLogManager.__module__,
        S3ComputeLogManager.__name__,
    )
    result = process_config(S3ComputeLogManager.config_type(), logs["config"])
    assert result.success, result.errors
    assert result.value["bucket"] == "logs"


def test_the_settings_for_postgresql_come_from_the_environment(with_everything):
    settings = with_everything["storage"]["postgres"]["postgres_db"]
    assert settings.keys() == {"hostname", "username", "password", "db_name", "port"}
    secret = {name: value for name, value in settings.items() if name != "port"}
    assert all(value.keys() == {"env"} for value in secret.values())
