"""The settings of derived tables: which arguments of the decorators are refused."""

from __future__ import annotations

import re
from functools import partial

import dagster as dg
import pytest
from dagster._utils.pydantic_yaml import parse_yaml_file_to_pydantic
from pydantic import ValidationError

from kinesis_assets import derived_table, rollup
from kinesis_assets.dagster.derived_tables import consumption_of
from kinesis_assets.dagster.settings.settings_base import Texts  # noqa: TC001  # pydantic reads it
from kinesis_assets.errors import InvalidInput


@pytest.mark.parametrize("name", ["partition_by", "key", "order_by"])
def test_a_text_in_place_of_a_list_is_refused_with_the_name_of_the_setting(name):
    with pytest.raises(InvalidInput, match=f"^{name} .*'order_date'"):
        derived_table(source="orders", table="orders", **{name: "order_date"})


def test_a_roll_up_refuses_a_text_in_place_of_a_list_and_an_empty_list():
    with pytest.raises(InvalidInput, match=r"^by .*'order_date'"):
        rollup(source="orders", table="orders", by="order_date")
    with pytest.raises(InvalidInput, match=r"^by "):
        rollup(source="orders", table="orders", by=[])


class OwnModel(dg.Model):
    """A model of somebody's own component, which has such a setting."""

    partition_by: Texts


@pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated:DeprecationWarning")
def test_dagster_reports_a_text_in_place_of_a_list_with_its_place():
    with pytest.raises(ValidationError, match=r"partition_by at orders.yaml:1") as caught:
        parse_yaml_file_to_pydantic(OwnModel, "partition_by: order_date", "orders.yaml")
    assert "Input should be a valid array" in str(caught.value)


@pytest.mark.parametrize("name", ["Mars/Olympus", "+01:00", "Europe", "../UTC", ""])
@pytest.mark.parametrize("decorator", [derived_table, partial(rollup, by=["day"])], ids=["append", "roll-up"])
def test_a_time_zone_is_one_of_the_database_of_time_zones(decorator, name):
    with pytest.raises(InvalidInput, match=f"^time_zone: invalid time zone '{re.escape(name)}'"):
        decorator(source="orders", table="orders", time_zone=name)


@pytest.mark.parametrize("decorator", [derived_table, partial(rollup, by=["day"])], ids=["append", "roll-up"])
@pytest.mark.parametrize(
    ("settings", "time_zone"), [({}, "UTC"), ({"time_zone": "Europe/Berlin"}, "Europe/Berlin")]
)
def test_expressions_of_a_table_use_utc_or_its_time_zone(decorator, settings, time_zone):
    def orders(rows):
        return rows

    asset = decorator(source="orders", table="orders", **settings)(orders)
    assert consumption_of(asset).derivation("source").time_zone == time_zone


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_maximum_share_of_bad_records_is_between_none_and_all(share):
    with pytest.raises(InvalidInput, match=r"^max_bad_share .*\b[01]\b"):
        derived_table(source="orders", table="orders", max_bad_share=share)


@pytest.mark.parametrize("name", ["source", "table", "upstream", "group_name", "time_zone", "delete_where"])
def test_no_setting_may_come_from_an_environment_variable_of_a_run(name):
    with pytest.raises(InvalidInput, match=f"^{name}: .*EnvVar"):
        derived_table(**{"source": "orders", "table": "orders", name: dg.EnvVar("NAME_OF_THE_TESTS")})


def test_a_number_may_not_come_from_an_environment_variable_of_a_run():
    with pytest.raises(InvalidInput, match=r"^max_bytes: .*EnvVar"):
        derived_table(source="orders", table="orders", max_bytes=dg.EnvVar.int("NAME_OF_THE_TESTS"))


MISTAKES = {
    "empty": ([""], "''"),
    "an expression": (["at DESC"], "'at DESC'"),
    "a part of a column": (["order.id"], "'order.id'"),
    "the batch id": (["_Batch_id"], "'_Batch_id'"),
    "an internal column": (["__id"], "'__id'"),
    "twice": (["id", "id"], "id is given twice"),
    "in two cases": (["id", "ID"], "id is given twice"),
}


@pytest.mark.parametrize(("names", "reason"), MISTAKES.values(), ids=MISTAKES)
@pytest.mark.parametrize("setting", ["partition_by", "key", "order_by", "by"])
def test_names_that_no_column_can_have_are_refused_when_the_function_is_decorated(setting, names, reason):
    others = {"key": {"order_by": ["at"]}, "order_by": {"key": ["number"]}}.get(setting, {})
    decorate = rollup if setting == "by" else derived_table
    with pytest.raises(InvalidInput, match=rf"^{setting}: .*{re.escape(reason)}") as caught:
        decorate(**{"source": "orders", "table": "orders", setting: names} | others)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("upstream", ["", "shop//orders"])
def test_an_upstream_table_that_no_asset_can_be_is_refused_when_the_function_is_decorated(upstream):
    with pytest.raises(InvalidInput, match=f"^upstream: invalid asset key '{upstream}'"):
        derived_table(source="orders", table="orders", upstream=upstream)
