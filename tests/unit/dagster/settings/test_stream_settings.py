"""The settings of a stream: declared once, and the same in the builder, the YAML and the command line."""

from __future__ import annotations

import inspect
from typing import Any, get_args

import click
import dagster as dg
import jsonschema
import pytest
from dagster_aws.utils import ResourceWithBoto3Configuration

from kinesis_assets import KinesisResource, KinesisStreamComponent, ShardIOManager, build_kinesis_stream
from kinesis_assets.cli.options import parse_settings, stream_options
from kinesis_assets.dagster.settings.stream_settings import ConnectionSettings, RunSettings, StreamSettings
from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis import consumers
from support.dagster_components import schema_of, validator_of
from support.stream_names import io_manager_key


def test_the_settings_are_the_arguments_of_the_builder_with_their_defaults():
    arguments = inspect.signature(build_kinesis_stream).parameters
    assert list(arguments) == list(StreamSettings.model_fields)
    for name, field in StreamSettings.model_fields.items():
        default = inspect.Parameter.empty if field.is_required() else field.default
        assert arguments[name].default == default, name
    positional = [name for name, each in arguments.items() if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert positional == ["stream"]


def properties() -> dict[str, Any]:
    """The fields of the YAML, as `dg` and editors show them."""
    return schema_of(KinesisStreamComponent)["properties"]


def test_the_schema_of_the_yaml_describes_every_setting():
    assert list(properties()) == list(StreamSettings.model_fields)
    for name, field in StreamSettings.model_fields.items():
        shown = properties()[name]
        assert shown["description"] == field.description, name
        assert shown["examples"] == field.examples, name
        default = list(field.default) if isinstance(field.default, tuple) else field.default
        assert shown.get("default") == (None if field.is_required() else default), name


WITH_ROLE = {"external_id", "session_name"}
"""The settings that are given only with a role."""

OF_ICEBERG = {"format", "keep_snapshots", "keep_snapshot_hours"}
"""The settings of Iceberg tables."""

ICEBERG = {
    "format": "iceberg",
    "catalog": {"type": "sql", "uri": "sqlite:////lake/catalog.db", "database": "lake"},
}


@pytest.mark.parametrize("name", StreamSettings.model_fields)
def test_every_example_of_a_setting_is_valid(name):
    field = StreamSettings.model_fields[name]
    assert field.examples
    required = {"stream": "clicks", "table": "clicks"}
    if name in WITH_ROLE:
        required["role_arn"] = StreamSettings.model_fields["role_arn"].examples[0]
    if name == "consumer":
        required["follow_for"] = StreamSettings.model_fields["follow_for"].examples[0]
    if name in OF_ICEBERG:
        required |= ICEBERG
    for example in field.examples:
        build_kinesis_stream(**required | {name: example})
        validator_of(KinesisStreamComponent, name).validate(example)


def test_the_schema_of_the_yaml_has_the_choices_and_bounds():
    choices = {
        name: get_args(StreamSettings.model_fields[name].annotation)
        for name in ("on_data_loss", "on_recreated")
    }
    assert choices == {"on_data_loss": ("fail", "continue"), "on_recreated": ("fail", "restart")}
    for name, values in choices.items():
        assert properties()[name]["anyOf"][0]["enum"] == list(values)
    assert properties()["max_records"]["exclusiveMinimum"] == 0
    assert properties()["commit_interval"]["minimum"] == 0.2
    assert properties()["retention_days"]["maximum"] == 36_500


OUT_OF_RANGE = [
    *((f"max_{run}{name}", 0) for run in ("", "run_") for name in ("records", "bytes", "seconds")),
    ("max_bad_records", -1),
    ("stop_timeout", -1),
    ("follow_for", 0),
    ("commit_interval", 0.1),
    ("retention_days", 0),
    ("retention_days", 36_501),
    ("sensor_interval_seconds", -1),
    ("on_data_loss", "ignore"),
    ("on_recreated", "merge"),
    ("max_records", "many"),
    ("sdk_parser", 7),
    ("spark_config", 7),
    ("colour", "red"),
]


@pytest.mark.parametrize(("name", "value"), OUT_OF_RANGE)
def test_a_value_is_refused_alike_by_builder_component_and_command_line(name, value):
    fields = {"stream": "clicks", "table": "clicks", name: value}
    said = []
    for refuse in (
        lambda: build_kinesis_stream(**fields),
        lambda: KinesisStreamComponent(**fields),
        lambda: parse_settings([f"{name}={value}"]),
    ):
        with pytest.raises(InvalidInput) as caught:
            refuse()
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert name in said[0]
    assert said[2] == f"--set: {said[0]}" or name == "colour"
    assert not any("\n" in each for each in said)
    with pytest.raises(jsonschema.ValidationError):
        validator_of(KinesisStreamComponent).validate(fields)


@pytest.mark.parametrize("name", sorted(WITH_ROLE))
def test_a_setting_of_a_role_is_refused_without_one(name):
    fields = {"stream": "clicks", "table": "clicks", name: "tests"}
    for refuse in (build_kinesis_stream, KinesisStreamComponent):
        with pytest.raises(InvalidInput, match=rf"^{name}: .*\brole_arn\b"):
            refuse(**fields)
    with pytest.raises(InvalidInput, match=rf"^{name}: .*\brole_arn\b"):
        KinesisResource(**{name: "tests"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("role_arn", "reader"),
        ("role_arn", "arn:aws:iam::111122223333:user/reader"),
        ("role_arn", "arn:aws:iam::1111:role/reader"),
        ("external_id", "a b"),
        ("session_name", "a/b"),
        ("session_name", "a" * 65),
    ],
)
def test_a_setting_of_a_role_is_checked_by_its_form(name, value):
    fields = {"role_arn": "arn:aws:iam::111122223333:role/team/reader", name: value}
    with pytest.raises(InvalidInput, match=rf"^{name}: invalid"):
        KinesisResource(**fields)


OTHER = "arn:aws:kinesis:us-east-1:123456789012:stream/other/consumer/lake:1764331200"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"consumer": "a lake"}, "invalid consumer 'a lake'"),
        ({"consumer": "arn:aws:kinesis:us-east-1:123456789012:stream/clicks"}, "invalid consumer"),
        ({"consumer": OTHER}, "not a consumer of stream clicks"),
        ({"consumer": "lake", "follow_for": None}, "set follow_for"),
        ({"consumer": "lake", "sdk_parser": True}, "sdk_parser"),
    ],
)
def test_a_consumer_that_no_run_could_use_is_refused(fields, reason):
    for make in (build_kinesis_stream, KinesisStreamComponent):
        with pytest.raises(InvalidInput, match=rf"^consumer: .*{reason}"):
            make(**{"stream": "clicks", "table": "clicks", "follow_for": 600} | fields)


def test_a_consumer_needs_its_extra(monkeypatch):
    monkeypatch.setattr(consumers, "find_spec", lambda _: None)
    with pytest.raises(InvalidInput, match=r"pip install 'kinesis-assets\[fan-out\]'"):
        build_kinesis_stream("clicks", table="clicks", follow_for=600, consumer="lake")


@pytest.mark.parametrize("name", StreamSettings.model_fields)
def test_every_field_of_the_yaml_may_be_a_template(name):
    template = "{{ env.SETTING_OF_THE_TESTS }}"
    validator_of(KinesisStreamComponent, name).validate(template)
    KinesisStreamComponent.get_model_cls()(**{"stream": "clicks", "table": "clicks"} | {name: template})


# The command line


@pytest.mark.parametrize(
    ("flag", "name"),
    [
        ("--start", "start"),
        ("--on-data-loss", "on_data_loss"),
        ("--on-recreated", "on_recreated"),
        ("--region", "region_name"),
        ("--endpoint-url", "endpoint_url"),
    ],
)
def test_an_option_of_the_command_line_has_the_description_and_the_choices_of_its_setting(flag, name):
    command = click.command()(stream_options(name)(lambda **_: None))
    (option,) = [each for each in command.params if flag in each.opts]
    field = StreamSettings.model_fields[name]
    assert isinstance(option, click.Option)
    assert option.name == name
    assert option.help == f"{field.description} Requires --table."
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    assert tuple(choices) == (get_args(field.annotation) if name.startswith("on_") else ())


# Dagster's resources


def manager_of(**settings: Any) -> ShardIOManager:
    resources = build_kinesis_stream("clicks", table="clicks", **settings).resources or {}
    return resources[io_manager_key("clicks")]


def test_the_io_manager_has_the_settings_of_a_run_as_flat_fields_with_their_descriptions():
    for name, field in RunSettings.model_fields.items():
        assert ShardIOManager.model_fields[name].description == field.description
        assert ShardIOManager.model_fields[name].default == field.default
    schema = ShardIOManager.to_config_schema().as_field().config_type.fields
    assert schema["max_records"].description == RunSettings.model_fields["max_records"].description


def test_the_io_manager_refuses_a_value_as_the_builder_does():
    with pytest.raises(InvalidInput, match=r"max_records .*\b0\b"):
        ShardIOManager(stream="clicks", table="clicks", max_records=0, kinesis=KinesisResource())


def test_an_integer_from_an_environment_variable_is_checked_when_it_is_known(monkeypatch):
    manager = ShardIOManager(
        stream="clicks",
        table="clicks",
        max_records=dg.EnvVar.int("RECORDS_OF_THE_TESTS"),
        kinesis=KinesisResource(),
    )
    monkeypatch.setenv("RECORDS_OF_THE_TESTS", "7")
    with manager.process_config_and_initialize_cm() as ready:
        assert ready.max_records == 7
    monkeypatch.setenv("RECORDS_OF_THE_TESTS", "0")
    with (
        pytest.raises(InvalidInput, match=r"max_records .*\b0\b"),
        manager.process_config_and_initialize_cm(),
    ):
        pass


@pytest.mark.parametrize(
    "name",
    [
        "stream",
        "table",
        "format",
        "catalog",
        "start",
        "follow_for",
        "key_prefix",
        "group_name",
        "kinds",
        "description",
        "sensor_interval_seconds",
        "checks",
    ],
)
def test_a_setting_that_definitions_need_may_not_come_from_an_environment_variable_of_a_run(name):
    settings = {"stream": "clicks", "table": "clicks", name: dg.EnvVar("NAME_OF_THE_TESTS")}
    way_out = r"dg\.EnvVar\('NAME_OF_THE_TESTS'\)\.get_value\(\)"
    with pytest.raises(InvalidInput, match=f"^{name}: .*{way_out}$"):
        build_kinesis_stream(**settings)


def test_a_part_of_a_key_prefix_may_not_come_from_an_environment_variable_of_a_run():
    with pytest.raises(InvalidInput, match=r"^key_prefix: .*EnvVar"):
        build_kinesis_stream("clicks", table="clicks", key_prefix=["eu", dg.EnvVar("NAME_OF_THE_TESTS")])


@pytest.mark.parametrize("name", ["region_name", "endpoint_url", "profile_name"])
def test_the_connection_may_come_from_environment_variables(name, monkeypatch):
    manager = manager_of(**{name: dg.EnvVar("SETTING_OF_THE_TESTS")})
    monkeypatch.setenv("SETTING_OF_THE_TESTS", "http://127.0.0.1:1")
    with manager.process_config_and_initialize_cm() as ready:
        assert getattr(ready.kinesis, name) == "http://127.0.0.1:1"


def test_the_resource_names_and_types_its_fields_as_the_resources_of_dagster_aws_do():
    theirs = ResourceWithBoto3Configuration.model_fields
    shared = ConnectionSettings.model_fields.keys() & theirs.keys()
    assert shared == {"region_name", "endpoint_url", "profile_name"}
    for name in shared:
        ours = KinesisResource.model_fields[name]
        assert (ours.annotation, ours.default) == (theirs[name].annotation, theirs[name].default)


@pytest.mark.parametrize("name", ["use_ssl", "verify", "max_attempts", "aws_secret_access_key"])
def test_the_resource_refuses_a_field_that_calls_would_not_honor(name):
    with pytest.raises(InvalidInput, match=f"unknown setting {name}"):
        KinesisResource(**{name: "1"})
