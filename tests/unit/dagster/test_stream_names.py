"""The names of a stream's definitions: by the stream's name alone, and with a key prefix."""

from __future__ import annotations

import dagster as dg
import pytest

from kinesis_assets import build_kinesis_stream
from kinesis_assets.dagster.settings.asset_settings import prefix_of
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.errors import InvalidInput

EU = StreamNames("page-views.v2", ("eu", "web-shop"))


def names_of(definitions: dg.Definitions) -> dict[str, set[str]]:
    """Return the names of all definitions by kind."""
    repository = definitions.get_repository_def()
    assets = [each for each in definitions.assets or () if isinstance(each, dg.AssetsDefinition)]
    jobs = [job for job in definitions.jobs or () if isinstance(job, dg.JobDefinition)]
    return {
        "assets": {key.to_user_string() for key in definitions.resolve_asset_graph().get_all_asset_keys()},
        "checks": {f"{key.asset_key.to_user_string()}" for key in repository.asset_checks_defs_by_key},
        "check op": {each.op.name for each in definitions.asset_checks or ()},
        "op": {asset.op.name for asset in assets},
        "groups": {group for asset in assets for group in asset.group_names_by_key.values()},
        "partitions": {str(asset.partitions_def.name) for asset in assets},
        "jobs": {job.name for job in jobs},
        "job ops": {node.name for job in jobs for node in job.nodes},
        "schedules": {schedule.name for schedule in repository.schedule_defs},
        "sensors": {sensor.name for sensor in repository.sensor_defs},
        "resources": {*(definitions.resources or {})},
    }


JOBS = ("maintenance", "replay", "seek", "rebuild", "redrive", "catch_up", "prune_history")


def test_without_a_prefix_every_name_follows_from_the_name_of_the_stream():
    found = names_of(build_kinesis_stream("page-views.v2", table="views"))
    assert found == {
        "assets": {"kinesis/page-views.v2", "kinesis/page-views.v2_raw"},
        "checks": {"kinesis/page-views.v2_raw"},
        "check op": {"kinesis__page_views_v2_raw_checks"},
        "op": {"kinesis__page_views_v2_raw"},
        "groups": {"page_views_v2"},
        "partitions": {"kinesis/page-views.v2"},
        "jobs": {f"kinesis__page_views_v2_raw_{job}" for job in JOBS},
        "job ops": {f"kinesis__page_views_v2_raw_{job}_op" for job in JOBS},
        "schedules": {"kinesis__page_views_v2_raw_maintenance_schedule"},
        "sensors": {"kinesis__page_views_v2_raw_sensor", "kinesis__page_views_v2_raw_automation"},
        "resources": {"kinesis__page_views_v2_raw_io_manager"},
    }


def test_a_prefix_replaces_the_first_part_of_every_name():
    found = names_of(build_kinesis_stream("page-views.v2", table="views", key_prefix=["eu", "web-shop"]))
    assert found == {
        "assets": {"eu/web-shop/page-views.v2", "eu/web-shop/page-views.v2_raw"},
        "checks": {"eu/web-shop/page-views.v2_raw"},
        "check op": {"eu__web_shop__page_views_v2_raw_checks"},
        "op": {"eu__web_shop__page_views_v2_raw"},
        "groups": {"page_views_v2"},
        "partitions": {"eu/web-shop/page-views.v2"},
        "jobs": {f"eu__web_shop__page_views_v2_raw_{job}" for job in JOBS},
        "job ops": {f"eu__web_shop__page_views_v2_raw_{job}_op" for job in JOBS},
        "schedules": {"eu__web_shop__page_views_v2_raw_maintenance_schedule"},
        "sensors": {"eu__web_shop__page_views_v2_raw_sensor", "eu__web_shop__page_views_v2_raw_automation"},
        "resources": {"eu__web_shop__page_views_v2_raw_io_manager"},
    }


def test_the_step_of_the_raw_asset_has_the_name_of_its_op():
    assert EU.raw_step == "eu__web_shop__page_views_v2_raw"


def test_a_text_is_a_prefix_of_one_part():
    assert prefix_of("eu") == prefix_of(["eu"]) == ("eu",)


@pytest.mark.parametrize("prefix", [[], "", "eu/sales", ["eu", ""], ["a b"], ["a" * 129], ["é"]], ids=repr)
def test_an_invalid_prefix_is_refused(prefix):
    with pytest.raises(InvalidInput, match=r"^key_prefix: "):
        build_kinesis_stream("clicks", table="clicks", key_prefix=prefix)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("orders", StreamNames("orders")),
        ("arn:aws:kinesis:eu-west-1:111122223333:stream/orders", StreamNames("orders")),
        ("kinesis/orders", StreamNames("orders")),
        ("eu/orders", StreamNames("orders", ("eu",))),
        ("eu/web-shop/page-views.v2", EU),
    ],
)
def test_a_stream_is_named_by_its_name_its_arn_or_its_asset_key(source, names):
    assert StreamNames.parse(source) == names
    assert StreamNames.parse(names.stream_key.to_user_string()) == names


@pytest.mark.parametrize("source", ["/orders", "eu/", "eu//orders", "eu/a b", "eu/" + "a" * 129])
def test_an_invalid_asset_key_of_a_stream_is_refused(source):
    with pytest.raises(InvalidInput, match="asset key"):
        StreamNames.parse(source)


STREAMS = [
    StreamNames("b_c", ("a",)),
    StreamNames("b__c", ("a",)),
    StreamNames("c", ("a", "b")),
    StreamNames("b-c", ("a",)),
    StreamNames("b.c", ("a",)),
    StreamNames("a"),
]


def test_no_two_streams_share_an_asset_or_partitions():
    keys = [key for names in STREAMS for key in (names.stream_key, names.raw_key)]
    assert len({*keys}) == len(keys)
    assert len({names.partitions_name for names in STREAMS}) == len(STREAMS)
