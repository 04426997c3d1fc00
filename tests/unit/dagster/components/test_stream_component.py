"""The YAML form of a stream, and the same settings given to the builder."""

from __future__ import annotations

import inspect
import json
import re

import dagster as dg
import pytest
import yaml

from kinesis_assets import KinesisStreamComponent, build_kinesis_stream
from kinesis_assets.dagster.settings.stream_settings import StreamSettings
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.start_positions import StartPositions
from support.dagster_components import dagsters_own_warnings, loaded
from support.stream_names import io_manager_key, raw_key


@dagsters_own_warnings
def test_the_value_of_a_template_is_converted_and_checked(monkeypatch):
    fields = {"stream": "clicks", "table": "clicks", "max_records": "{{ env.SETTING_OF_THE_TESTS }}"}
    monkeypatch.setenv("SETTING_OF_THE_TESTS", "7")
    assert loaded(**fields)[0].max_records == 7
    monkeypatch.setenv("SETTING_OF_THE_TESTS", "0")
    with pytest.raises(Exception, match="KinesisStreamComponent") as caught:
        loaded(**fields)
    assert re.fullmatch(r".*defs\.yaml:\d+: max_records .*", str(caught.value.__cause__))


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
        "role_arn": "arn:aws:iam::111122223333:role/lake",
        "external_id": "shop-4711",
        "session_name": "clicks-production",
        "sdk_parser": False,
        "spark_config": {"spark.executor.memory": "1g"},
        "managed_spark": {"service": "emr", "cluster_id": "j-1"},
        "python_environment": "s3://lake/environment.tar.gz",
        "python_executable": "/usr/bin/python3.12",
        "tasks": 15,
        "max_records": 10,
        "max_bytes": 20,
        "max_seconds": 30.0,
        "calls_per_second": 2.5,
        "max_run_records": 100,
        "max_run_bytes": 200,
        "max_run_seconds": 300.0,
        "max_bad_records": 0,
        "on_data_loss": "continue",
        "on_recreated": "restart",
        "stop_timeout": 50.0,
        "follow_for": 1800.0,
        "commit_interval": 2.0,
        "max_idle_seconds": 7200.0,
        "consumer": "lake",
        "lease_table": "clicks-positions",
        "format": "iceberg",
        "catalog": {"type": "sql", "uri": "sqlite:////lake/catalog.db", "database": "lake"},
        "keep_snapshots": 200,
        "keep_snapshot_hours": 24,
        "key_prefix": ["eu", "shop"],
        "sensor_interval_seconds": 40,
        "retention_days": 60,
        "keep_unconsumed_days": 5,
        "prune_after": 10,
        "maintenance_schedule": "0 4 * * *",
        "checks": {"lag": {"max_seconds": 60.0, "severity": "ERROR"}, "compaction_debt": "off"},
        "freshness": {"fail_after_seconds": 3600.0},
        "group_name": "shop",
        "owners": ["team:shop"],
        "tags": {"domain": "shop"},
        "kinds": ["deltalake"],
        "description": "All clicks.",
    }
    assert attributes.keys() == StreamSettings.model_fields.keys()
    assert attributes.keys() == inspect.signature(build_kinesis_stream).parameters.keys()

    component, definitions = loaded(**attributes)

    assert component == KinesisStreamComponent(**attributes)
    names = StreamNames("clicks", ("eu", "shop"))
    ours, builders = (
        (given.resources or {})[names.io_manager_key]
        for given in (definitions, build_kinesis_stream(**attributes))
    )
    assert ours.model_dump() == builders.model_dump()
    given = ours.model_dump()
    given |= given.pop("kinesis")
    (sensor,) = (each for each in definitions.sensors or () if each.name == names.sensor)
    given["sensor_interval_seconds"] = sensor.minimum_interval_seconds
    (schedule,) = definitions.schedules or ()
    given["maintenance_schedule"] = schedule.cron_schedule
    spec = definitions.resolve_asset_graph().get(names.raw_key).assets_def.get_asset_spec()
    given |= {"group_name": spec.group_name, "owners": [*spec.owners], "kinds": [*spec.kinds]}
    given |= {"tags": {"domain": spec.tags["domain"]}, "description": spec.description}
    given["checks"] = json.loads(given["checks"])
    given["freshness"] = {
        "fail_after_seconds": spec.freshness_policy.fail_window.to_timedelta().total_seconds()
    }
    assert {name: given[name] for name in attributes} == attributes


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
    ("wrong", "message"),
    [
        ({"colour": "red"}, at("colour", "Extra inputs are not permitted")),
        ({"table": None}, at("table", "Input should be a valid string")),
        ({"start": "YESTERDAY"}, "'YESTERDAY'.*TRIM_HORIZON, LATEST"),
        (
            {"start": {"shardId-000000000000": "NOW"}},
            "'NOW'.*TRIM_HORIZON",
        ),
        ({"start": "file:///no/such/file"}, "start .*file:///no/such/file"),
        ({"start": "AT_TIMESTAMP:noon"}, "write it as AT_TIMESTAMP:2026-01-31T12:00:00Z"),
        ({"on_data_loss": "ignore"}, at("on_data_loss", "Input should be 'fail' or 'continue'")),
        ({"on_recreated": "merge"}, at("on_recreated", "Input should be 'fail' or 'restart'")),
        ({"max_run_seconds": 0}, at("max_run_seconds", "Input should be greater than 0")),
        ({"max_bad_records": -1}, at("max_bad_records", "Input should be greater than or equal to 0")),
        ({"stream": "page views"}, "'page views'.* 128 "),
        (
            {"table": "gs://lake/clicks"},
            "s3://bucket/prefix",
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
def test_an_invalid_yaml_is_reported_in_one_line(wrong, message):
    with pytest.raises(Exception, match="KinesisStreamComponent") as caught:
        loaded(**{"stream": "clicks", "table": "clicks"} | wrong)
    assert re.search(message, str(caught.value.__cause__))


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
