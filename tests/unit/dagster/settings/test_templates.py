"""Templates in a YAML: what they may be, and that none of them loses a value silently."""

from __future__ import annotations

import re

import pytest

from kinesis_assets import KinesisTableComponent
from support.dagster_components import dagsters_own_warnings, loaded

pytestmark = dagsters_own_warnings

CLICKS = {"stream": "clicks", "table": "clicks"}
NAME = "SETTING"


def refusal(**attributes: object) -> str:
    with pytest.raises(Exception, match="KinesisStreamComponent") as caught:
        loaded(**CLICKS | attributes)
    found = re.fullmatch(r".*defs\.yaml:\d+: (.*)", str(caught.value.__cause__))
    assert found is not None, caught.value.__cause__
    return found[1]


@pytest.mark.parametrize(
    ("template", "value", "table"),
    [
        ("{{ env.SETTING }}", "s3://lake/clicks", "s3://lake/clicks"),
        ("{{ env.SETTING }}/clicks", "s3://lake", "s3://lake/clicks"),
        ("s3://lake{{ env.SETTING }}/clicks", "", "s3://lake/clicks"),
        ("{{ env('OTHER', 's3://other') }}/{{ env.SETTING }}", "clicks", "s3://other/clicks"),
        ("{{ lake | default('s3://lake') }}/{{ env.SETTING }}", "clicks", "s3://lake/clicks"),
        ("{{ env.OTHER or 's3://lake' }}/{{ env.SETTING }}", "clicks", "s3://lake/clicks"),
        ("{{ env.SETTING }}", "2024", "2024"),
    ],
)
def test_a_text_may_be_a_template_or_contain_some(monkeypatch, template, value, table):
    monkeypatch.setenv(NAME, value)
    assert loaded(**CLICKS | {"table": template})[0].table == table


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("max_records", "7", 7),
        ("max_seconds", "0.5", 0.5),
        ("sdk_parser", "true", True),
        ("on_data_loss", "continue", "continue"),
        ("stream", "2024", "2024"),
        ("profile_name", "001", "001"),
        ("spark_config", "{'spark.master': 'local[2]'}", {"spark.master": "local[2]"}),
    ],
)
def test_the_value_of_an_environment_variable_has_the_type_of_its_setting(monkeypatch, name, value, expected):
    monkeypatch.setenv(NAME, value)
    assert getattr(loaded(**CLICKS | {name: f"{{{{ env.{NAME} }}}}"})[0], name) == expected


def test_templates_in_lists_and_maps_are_rendered(monkeypatch):
    monkeypatch.setenv(NAME, "8")
    config = {
        "spark.executor.cores": f"{{{{ env.{NAME} }}}}",
        "spark.driver.memory": f"{{{{ env.{NAME} }}}}g",
    }
    assert set(loaded(**CLICKS, spark_config=config)[0].spark_config.values()) == {"8", "8g"}
    table = {"name": "orders", "source": "clicks", "table": "orders", "format": "json"} | {
        "schema": "a STRING"
    }
    select = ["a", f"{{{{ env.{NAME} }}}}"]
    typed, _ = loaded(KinesisTableComponent, **table, select=select)
    assert typed.select == ["a", "8"]


def test_a_variable_that_is_not_set_leaves_an_optional_setting_at_its_default():
    assert loaded(**CLICKS, profile_name=f"{{{{ env.{NAME} }}}}")[0].profile_name is None


@pytest.mark.parametrize("text", ["2024", "True", "'clicks'", "1e5"])
def test_a_text_without_a_template_stays_as_it_is(text):
    assert loaded(**CLICKS | {"table": text})[0].table == text


def test_an_expression_of_sql_stays_as_it_is():
    table = {"name": "orders", "source": "clicks", "table": "orders", "format": "json", "schema": "a STRING"}
    assert loaded(KinesisTableComponent, **table, select=["a", "'1'"])[0].select == ["a", "'1'"]


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ lake }}", "'lake' is undefined"),
        ("{{ lake }}/clicks", "'lake' is undefined"),
        ("s3://lake/{{ lake.folder }}", "'lake' is undefined"),
        ("s3://lake/{% if lake %}a{% endif %}", "'lake' is undefined"),
        ("{{ env.SETTING }}", "its value is None"),
        ("{{ env.SETTING }}/clicks", "its value is None"),
        ("s3://{{ env.SETTING }}/clicks", "its value is None"),
        ("{{ env('SETTING') }}/clicks", "Environment variable SETTING is not set and no default"),
        ("{{ env('SETTING', '') }}/clicks", "the expression at its beginning is empty"),
        ("{{ env.X /clicks", "unexpected end of template"),
    ],
)
def test_a_template_without_a_value_is_refused_with_its_file_and_line(template, reason):
    assert refusal(table=template).startswith(f"table: template {template!r}: {reason}")


def test_a_template_in_a_map_is_refused_likewise():
    assert refusal(spark_config={"spark.master": "{{ master }}[2]"}).startswith("spark_config: template")
