"""`kinesis-assets show`: all settings as the YAML of the component, without secrets."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest
import yaml

from kinesis_assets import build_kinesis_stream
from kinesis_assets.cli.options import parse_settings
from kinesis_assets.dagster.effective_settings import MASK, component_yaml, effective_settings
from kinesis_assets.dagster.settings.stream_settings import StreamSettings
from kinesis_assets.dagster.stream_project import StreamProject
from support.dagster_components import dagsters_own_warnings, loaded
from support.mentions import assert_mentions

HIDDEN = "wJalrXUtnFEMI"


def shown(definitions: dg.Definitions, stream: str = "clicks") -> str:
    (manager,) = (definitions.resources or {}).values()
    return component_yaml(effective_settings(StreamProject(stream, definitions, manager.names.prefix)))


def shown_again(text: str) -> str:
    """What is shown of the stream that the component of a shown YAML defines."""
    return shown(loaded(**yaml.safe_load(text)["attributes"])[1])


EVERY_SETTING: dict[str, Any] = {
    name: field.examples[-1] for name, field in StreamSettings.model_fields.items() if name != "stream"
} | {
    "sdk_parser": False,  # consumer excludes it
    "catalog": {"type": "sql", "uri": "sqlite:////lake/catalog.db", "database": "lake"},  # of that format
}
ODD_TEXTS = {
    "number": "4",
    "boolean": "True",
    "list": "['a', 1]",
    "quoted": "'4'",
    "template": "{{ env.HOME }}",
    "statement": "{% raw %}",
    "comment": "a{# b #}c",
    "lines": "a\nb\n",
    "smile": "{{ \U0001f600 }}'\"\\",
    "empty": "",
    "spaces": " 4 ",
}


@dagsters_own_warnings
@pytest.mark.parametrize(
    "settings",
    [
        {"table": "s3://lake/clicks"},
        EVERY_SETTING,
        {"table": "clicks", "start": {"default": "LATEST", "shardId-000000000000": "TRIM_HORIZON"}},
        {"table": "clicks", "spark_config": ODD_TEXTS},
        {"table": "clicks", "spark_config": {"spark.hadoop.fs.s3a.secret.key": HIDDEN}},
        {"table": "clicks", "max_records": None, "maintenance_schedule": None},
    ],
    ids=["defaults", "every setting", "a map", "odd texts", "a secret", "none"],
)
def test_the_component_of_the_shown_yaml_shows_the_same(settings):
    text = shown(build_kinesis_stream("clicks", **settings))
    assert yaml.safe_load(shown_again(text)) == yaml.safe_load(text)


@dagsters_own_warnings
@pytest.mark.parametrize("name", ODD_TEXTS)
def test_a_text_is_not_evaluated_as_a_template(name):
    text = shown(build_kinesis_stream("clicks", table="clicks", spark_config={name: ODD_TEXTS[name]}))
    component, _ = loaded(**yaml.safe_load(text)["attributes"])
    assert component.spark_config == {name: ODD_TEXTS[name]}


@dagsters_own_warnings
def test_it_shows_every_setting_in_the_declared_order_as_it_applies():
    component = yaml.safe_load(shown(build_kinesis_stream("clicks", **EVERY_SETTING)))
    assert component["type"] == "kinesis_assets.KinesisStreamComponent"
    assert list(component["attributes"]) == list(StreamSettings.model_fields)
    assert component["attributes"] == {"stream": "clicks"} | EVERY_SETTING


@pytest.mark.parametrize(
    "config",
    [
        {"spark.hadoop.fs.s3a.secret.key": HIDDEN},
        {"spark.hadoop.fs.s3a.access.key": HIDDEN},
        {"spark.hadoop.fs.s3a.session.token": HIDDEN},
        {"spark.ssl.keyPassword": HIDDEN},
        {"spark.driver.extraJavaOptions": f"-Xmx1g -Djavax.net.ssl.keyStorePassword={HIDDEN} -Da=b"},
        {"spark.jars.repositories": f"https://ann:{HIDDEN}@repo.example/maven"},
        {"nested": {"password": [HIDDEN]}},
        {"spark.my.password": 1234567},
        {"spark.sql.catalog.lake.header.Authorization": f"Bearer {HIDDEN}"},
        {"spark.sql.catalog.lake.header.X-Api-Key": HIDDEN},
        {"spark.hadoop.fs.azure.account.key.x": HIDDEN},
        {"spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net": HIDDEN},
        {"spark.sql.catalog.lake.jdbc.pwd": HIDDEN},
        {"spark.sql.catalog.lake.jdbc.passwd": HIDDEN},
        {"spark.my.private-key": HIDDEN},
        {"spark.driver.extraJavaOptions": f"-Xmx1g -Dapi_key={HIDDEN} -Da=b"},
        {"spark.driver.extraJavaOptions": f"-Xmx1g -Dlake.jdbc.pwd={HIDDEN} -Da=b"},
        {"spark.my.headers": f"Accept: text/plain, Authorization: Bearer {HIDDEN}"},
        {"spark.my.headers": f"Authorization:Basic {HIDDEN}"},
        {"spark.my.headers": f"x-api-key: {HIDDEN}"},
        {"spark.my.headers": f'{{"Authorization": "Bearer {HIDDEN}"}}'},
        {"spark.my.headers": f"Authorization: Token {HIDDEN}"},
        {"spark.my.headers": f"Authorization: ApiKey {HIDDEN}"},
        {"spark.sql.catalog.lake.uri": f"jdbc:postgresql://db/lake?user=ann;pwd={HIDDEN}"},
    ],
)
def test_secrets_are_masked(config):
    text = shown(build_kinesis_stream("clicks", table="clicks", spark_config=config))
    assert HIDDEN not in text
    assert "1234567" not in text
    assert MASK in text


def test_what_is_around_a_secret_and_names_of_classes_stay():
    config = {
        "spark.driver.extraJavaOptions": f"-Xmx1g -Dmy.password={HIDDEN} -Da=b",
        "spark.hadoop.fs.s3a.aws.credentials.provider": "com.example.WebIdentityTokenCredentialsProvider",
    }
    found = yaml.safe_load(shown(build_kinesis_stream("clicks", table="clicks", spark_config=config)))
    assert found["attributes"]["spark_config"] == config | {
        "spark.driver.extraJavaOptions": f"-Xmx1g -Dmy.password={MASK} -Da=b"
    }


def test_what_is_around_a_secret_in_headers_stays():
    config = {"spark.my.headers": f"Accept: text/plain, Authorization: Bearer {HIDDEN}, X-Name: orders"}
    found = yaml.safe_load(shown(build_kinesis_stream("clicks", table="clicks", spark_config=config)))
    assert found["attributes"]["spark_config"] == {
        "spark.my.headers": f"Accept: text/plain, Authorization: {MASK}, X-Name: orders"
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("partition_key", "customer"),
        ("spark.sql.shuffle.partitions", "200"),
        ("key_prefix", "eu"),
        ("stream_key", "id"),
        ("spark.hadoop.fs.s3a.bucket.keys", "orders"),
        ("spark.hadoop.fs.s3a.connection.ssl.enabled", "true"),
        ("spark.yarn.principal", "account"),
        ("spark.driver.extraJavaOptions", "-Dpartition_key=customer -Duser.timezone=UTC"),
        ("spark.sql.catalog.lake.uri", "https://api.example/keys?account=orders"),
        ("spark.sql.catalog.lake.jdbc.user", "pwd"),
    ],
)
def test_what_is_no_secret_stays(name, value):
    found = yaml.safe_load(shown(build_kinesis_stream("clicks", table="clicks", spark_config={name: value})))
    assert found["attributes"]["spark_config"] == {name: value}


def test_the_value_of_an_environment_variable_is_shown(monkeypatch):
    monkeypatch.setenv("CLICKS_MAX", "17")
    definitions = build_kinesis_stream("clicks", table="clicks", max_records=dg.EnvVar.int("CLICKS_MAX"))
    assert yaml.safe_load(shown(definitions))["attributes"]["max_records"] == 17


def test_a_missing_environment_variable_is_named(cli, monkeypatch):
    monkeypatch.delenv("CLICKS_PROFILE", raising=False)
    definitions = build_kinesis_stream("clicks", table="clicks", profile_name=dg.EnvVar("CLICKS_PROFILE"))
    monkeypatch.setattr(StreamProject, "of_folder", lambda *_: StreamProject("clicks", definitions))
    done = cli("show", "--stream", "clicks")
    assert (done.exit_code, done.out) == (2, "")
    assert_mentions(done.err, "profile_name: ", "CLICKS_PROFILE")


def test_json_output_is_one_object_with_the_same_values(cli, tmp_path):
    options = ["--stream", "clicks", "--table", str(tmp_path), "--set", "max_records=7", "--start", "LATEST"]
    text, done = cli("show", *options), cli("show", *options, "--json")
    assert (text.exit_code, done.exit_code) == (0, 0)
    (found,) = done.lines
    assert found == yaml.safe_load(text.out)
    assert (found["attributes"]["max_records"], found["attributes"]["start"]) == (7, "LATEST")
    assert found["attributes"]["spark_config"] == {}


def test_the_shown_values_are_accepted_by_set(cli, tmp_path):
    (found,) = cli("show", "--stream", "clicks", "--table", str(tmp_path), "--json").lines
    pairs = [
        f"{name}={yaml.safe_dump(value, default_flow_style=True)}"
        for name, value in found["attributes"].items()
        if name not in {"stream", "table"}
    ]
    assert parse_settings(pairs).items() <= found["attributes"].items()
