"""Several streams in one project: each name of a definition belongs to one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from dagster.components.testing import create_defs_folder_sandbox

from kinesis_assets import KinesisStreamComponent, KinesisTableComponent
from support.dagster_components import dagsters_own_warnings
from support.mentions import assert_mentions

if TYPE_CHECKING:
    import dagster as dg

pytestmark = dagsters_own_warnings

TABLE = {"source": "clicks", "table": "typed", "format": "json", "schema": "a STRING"}


def project(**components: dict[str, Any]) -> dg.Definitions:
    """Load a project with a folder of each name."""
    with create_defs_folder_sandbox() as sandbox:
        for name, attributes in components.items():
            component = KinesisStreamComponent if "stream" in attributes else KinesisTableComponent
            contents = {"type": f"kinesis_assets.{component.__name__}", "attributes": attributes}
            sandbox.scaffold_component(component_cls=component, defs_path=name, defs_yaml_contents=contents)
        with sandbox.build_all_defs() as definitions:
            definitions.get_repository_def().load_all_definitions()
            return definitions


def refusal(**components: dict[str, Any]) -> str:
    with pytest.raises(Exception, match="Error while building definitions") as caught:
        project(**components)
    error: BaseException | None = caught.value
    while error is not None and "both define" not in str(error):
        error = error.__cause__
    return str(error)


def arn(region: str, account: str = "111122223333") -> str:
    return f"arn:aws:kinesis:{region}:{account}:stream/orders"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"stream": arn("eu-west-1")}, {"stream": arn("us-east-1")}),
        ({"stream": arn("eu-west-1")}, {"stream": arn("eu-west-1", "444455556666")}),
        (
            {"stream": "orders", "region_name": "eu-west-1"},
            {"stream": "orders", "region_name": "us-east-1"},
        ),
    ],
    ids=["region", "account", "region by name"],
)
def test_two_streams_of_one_name_are_refused_with_both_files(first, second):
    said = refusal(eu=first | {"table": "eu"}, us=second | {"table": "us"})
    assert "stream orders in " in said
    assert "/eu/defs.yaml" in said
    assert "/us/defs.yaml" in said
    assert "the asset kinesis/orders" in said


def test_the_stream_with_the_name_of_another_stream_s_raw_table_is_refused():
    said = refusal(
        a={"stream": "orders", "table": "orders"}, b={"stream": "orders_raw", "table": "orders_raw"}
    )
    assert "the asset kinesis/orders_raw" in said


def test_streams_whose_names_differ_only_in_punctuation_are_refused():
    said = refusal(a={"stream": "a-b", "table": "1"}, b={"stream": "a.b", "table": "2"})
    assert "the sensor kinesis__a_b_raw_sensor" in said


def test_streams_of_one_name_with_different_prefixes_are_loaded_together():
    regions = {
        name: {"stream": arn(region), "table": name, "key_prefix": name}
        for name, region in (("eu", "eu-west-1"), ("us", "us-east-1"))
    }
    typed = TABLE | {"name": "typed", "source": "eu/orders"}
    keys = project(**regions, typed=typed).resolve_asset_graph().get_all_asset_keys()
    assert {key.to_user_string() for key in keys} == {
        *("eu/orders", "eu/orders_raw", "us/orders", "us/orders_raw", "typed")
    }


def test_streams_whose_prefixes_and_names_differ_only_in_where_they_end_are_refused():
    said = refusal(
        x={"stream": "b__c", "table": "1", "key_prefix": "a"},
        y={"stream": "c", "table": "2", "key_prefix": ["a", "b"]},
    )
    assert_mentions(said, "the sensor a__b__c_raw_sensor", "key_prefix")


def test_two_tables_of_one_name_are_refused():
    stream = {"stream": "clicks", "table": "clicks"}
    said = refusal(clicks=stream, a=TABLE | {"name": "typed"}, b=TABLE | {"name": "typed", "table": "other"})
    assert_mentions(said, "table typed in ", "the asset typed")


@pytest.mark.slow
def test_several_streams_and_regions_are_loaded_together_and_again():
    streams = {
        "eu": {"stream": arn("eu-west-1"), "table": "eu"},
        "us": {"stream": "clicks", "region_name": "us-east-1", "table": "us"},
        "typed": TABLE | {"name": "typed"},
    }
    for _ in range(2):
        assert len(project(**streams).resolve_asset_graph().get_all_asset_keys()) == 5
