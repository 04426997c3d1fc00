"""What docs/following.md says is so."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from kinesis_assets import KinesisStreamComponent, build_kinesis_stream
from kinesis_assets.dagster.names import io_manager_key
from kinesis_assets.dagster.partition_ranges import FOLLOW_TAG, continuous_run_tags
from kinesis_assets.ingest import continuous_run as follow_module
from kinesis_assets.ingest import shard_tracker
from kinesis_assets.ingest.run_timing import COMMIT_INTERVAL
from kinesis_assets.kinesis.sdk_client import READ_TIMEOUT

PAGE = (Path(__file__).parents[2] / "docs" / "following.md").read_text()
TEXT = " ".join(PAGE.split())


def test_the_yaml_of_the_page_is_a_stream_that_is_followed():
    (text,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    attributes = yaml.safe_load(text)["attributes"]
    manager = (KinesisStreamComponent(**attributes).build_defs(None).resources or {})[
        io_manager_key("clicks")
    ]
    assert (manager.follow_for, manager.commit_interval) == (1800, 1)
    assert manager.commit_interval == COMMIT_INTERVAL


def test_the_next_run_is_asked_for_as_early_as_the_page_says():
    def handover(**fields):
        resources = build_kinesis_stream("clicks", table="clicks", **fields).resources or {}
        return resources[io_manager_key("clicks")].handover

    assert handover(follow_for=1800, sensor_interval_seconds=20) == 20 + 30
    assert handover(follow_for=60) == 30


def test_the_times_of_the_page_are_those_of_the_code():
    waits = (shard_tracker.FIRST_WAIT, shard_tracker.LONGEST_WAIT, follow_module.MAX_LISTING_AGE)
    assert waits == (1, 30, 10)
    assert "after 1 s, 2 s, up to 30 s" in TEXT
    assert "Shards are listed every 10 s" in TEXT
    assert (follow_module.FIRST_RESPONSE_TIMEOUT, shard_tracker.UNRESPONSIVE_WAIT_FACTOR, READ_TIMEOUT) == (
        5,
        4,
        20,
    )
    assert "delays the other shards by 5 s" in TEXT
    assert "four times as long. Each time both are doubled, up to 20 s and 80 s" in TEXT


def test_the_tags_of_the_page_are_those_of_the_runs():
    assert f"`{FOLLOW_TAG}: 600`" in PAGE
    assert "dagster/max_runtime" in continuous_run_tags(["a"], 600, 0)
    assert "`dagster/max_runtime`" in PAGE
