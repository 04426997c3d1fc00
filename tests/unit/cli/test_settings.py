"""`--set name=value` accepts every setting of a YAML, in the commands that read it."""

from __future__ import annotations

import json

import pytest
import yaml

from kinesis_assets.cli.options import parse_settings, project_of
from kinesis_assets.dagster.settings.stream_settings import StreamSettings
from kinesis_assets.errors import InvalidInput
from support.command_line import single_line_error
from support.mentions import assert_mentions

OTHERS = {
    "start": "LATEST",
    "on_data_loss": "continue",
    "on_recreated": "restart",
    "max_records": 7,
    "max_bytes": 8,
    "max_seconds": 9.5,
    "calls_per_second": 2.5,
    "max_run_records": 10,
    "max_run_bytes": 11,
    "max_run_seconds": 12.5,
    "max_bad_records": 13,
    "stop_timeout": 14.5,
    "follow_for": 1500.0,
    "commit_interval": 2.5,
    "max_idle_seconds": 3600.5,
    "consumer": "lake",
    "lease_table": "clicks-positions",
    "format": "iceberg",
    "catalog": {"type": "sql", "uri": "sqlite:////lake/catalog.db", "database": "lake"},
    "keep_snapshots": 200,
    "keep_snapshot_hours": 24,
    "region_name": "eu-west-1",
    "endpoint_url": "http://127.0.0.1:1",
    "profile_name": "reader",
    "role_arn": "arn:aws:iam::111122223333:role/reader",
    "external_id": "shop-4711",
    "session_name": "clicks-production",
    "sdk_parser": True,
    "spark_config": {"spark.executor.memory": "1g"},
    "managed_spark": {"service": "emr", "cluster_id": "j-1"},
    "python_environment": "s3://lake/environment.tar.gz",
    "python_executable": "/usr/bin/python3.12",
    "tasks": 15,
    "sensor_interval_seconds": 31,
    "retention_days": 32,
    "keep_unconsumed_days": 34,
    "maintenance_schedule": "1 2 3 4 *",
    "prune_after": 33,
    "checks": {"lag": {"max_seconds": 60.5}},
    "freshness": {"fail_after_seconds": 3600.5},
    "key_prefix": ["eu", "shop"],
    "group_name": "shop",
    "owners": ["team:shop"],
    "tags": {"domain": "shop"},
    "kinds": ["deltalake"],
    "description": "All clicks.",
}
"""Of each setting another value than its default."""


def test_every_setting_of_the_yaml_can_be_set():
    assert OTHERS.keys() == StreamSettings.model_fields.keys() - {"stream", "table"}
    pairs = [f"{name}={yaml.safe_dump(value, default_flow_style=True)}" for name, value in OTHERS.items()]
    assert parse_settings(pairs) == OTHERS


def test_they_are_the_stream_s(tmp_path):
    project = project_of("clicks", table=str(tmp_path), settings={"max_records": 7, "commit_interval": 2.5})
    with project.open_stream() as opened:
        assert (opened.policy.bounds.max_records, opened.settings.commit_interval) == (7, 2.5)


def test_a_share_of_the_calls_is_that_of_the_client(tmp_path):
    with project_of("clicks", table=str(tmp_path), settings={"calls_per_second": 2}).open_stream() as opened:
        assert opened.client.settings.timing.seconds_between_calls == 0.5


def test_settings_of_spark_are_added_to_those_of_the_command(tmp_path):
    project = project_of(
        "clicks", table=str(tmp_path), settings={"spark_config": {"spark.master": "local[3]"}}
    )
    with project.open_stream() as opened:
        assert opened.settings.spark_config["spark.master"] == "local[3]"
        assert opened.settings.spark_config["spark.ui.enabled"] == "false"


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("max_records=null", None),
        ("start=2026-01-31", "2026-01-31"),
        ("profile_name=007", "007"),
        ("session_name=2026-02-30", "2026-02-30"),
        ("start={shardId-000000000000: LATEST}", {"shardId-000000000000": "LATEST"}),
        ("start=AT_TIMESTAMP:2026-01-31T12:00:00Z", "AT_TIMESTAMP:2026-01-31T12:00:00Z"),
    ],
)
def test_a_value_is_read_as_the_setting_wants_it(pair, value):
    assert list(parse_settings([pair]).values()) == [value]


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        (["max_records"], "give name=value"),
        (["max_record=1"], "unknown setting; this command reads start, max_records"),
        (["table=s3://lake/clicks"], "table: has no effect here"),
        (["max_records=many"], "--set: max_records .*integer.*'many'"),
        (["max_records=1.5"], "--set: max_records"),
        (["sdk_parser=7"], "--set: sdk_parser"),
        (["spark_config=7"], "--set: spark_config"),
        (["max_records=["], "--set: max_records"),
        (["max_records=1", "max_records=2"], "given twice"),
    ],
)
def test_an_unknown_setting_is_refused(pairs, reason):
    with pytest.raises(InvalidInput, match=reason):
        parse_settings(pairs)


def test_a_value_out_of_range_is_refused_as_in_the_yaml(cli, stream_options):
    done = cli("plan", *stream_options, "--set", "commit_interval=0.01")
    assert done.exit_code == 2
    assert "commit_interval" in single_line_error(done.err)


def test_a_setting_that_the_command_does_not_read_is_refused(cli, stream_options):
    done = cli("pause", *stream_options, "--reason", "a test", "--set", "max_records=1")
    assert done.exit_code == 2
    assert_mentions(single_line_error(done.err), "max_records: has no effect here", "role_arn")


def test_an_option_and_the_same_setting_are_refused(cli, stream_options):
    done = cli("run", *stream_options, "--set", "endpoint_url=http://127.0.0.1:1")
    assert done.exit_code == 2
    assert_mentions(single_line_error(done.err), "--endpoint-url", "--set endpoint_url")


def test_without_a_table_it_is_refused(cli, stream):
    done = cli("run", "--stream", stream, "--set", "max_records=1")
    assert done.exit_code == 2
    assert_mentions(single_line_error(done.err), "--set", "--table")


def test_outside_of_a_project_the_error_asks_for_the_table(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = cli("run", "--stream", "clicks")
    assert done.exit_code == 2
    assert_mentions(single_line_error(done.err), "stream clicks: ", tmp_path, "--table")


def test_a_command_that_opens_no_table_asks_for_the_region_instead(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = cli("consumer", "show", "--stream", "clicks")
    assert done.exit_code == 2
    assert_mentions(single_line_error(done.err), "stream clicks: ", tmp_path, "--region")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dagster.BetaWarning", "ignore::dagster.PreviewWarning")
def test_a_stream_is_found_in_the_project_of_the_current_directory(
    cli, kinesis, settings, stream, tmp_path, monkeypatch
):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    folder = tmp_path / "lake" / "defs" / "clicks"
    folder.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.dg.project]\nroot_module = "lake"\n')
    attributes = {"stream": stream, "table": "here", "endpoint_url": settings.endpoint_url}
    component = {"type": "kinesis_assets.KinesisStreamComponent", "attributes": attributes}
    (folder / "defs.yaml").write_text(json.dumps(component))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(folder)
    done = cli("positions", "--stream", stream)
    assert single_line_error(done.err).startswith("Error: table here: ")
