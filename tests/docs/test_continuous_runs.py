"""docs/continuous-runs.md agrees with the code."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from kinesis_assets import KinesisStreamComponent, build_kinesis_stream
from kinesis_assets.dagster.settings.stream_settings import StreamSettings
from support.dagster_components import definitions_of
from support.stream_names import io_manager_key

PAGE = (Path(__file__).parents[2] / "docs" / "continuous-runs.md").read_text()


def managers():
    """Return the I/O manager that each YAML block of the page defines."""
    found = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    components = [KinesisStreamComponent(**yaml.safe_load(text)["attributes"]) for text in found]
    return [(definitions_of(each).resources or {})[io_manager_key("clicks")] for each in components]


def test_the_yaml_block_defines_continuous_runs():
    manager, _ = managers()
    assert (manager.follow_for, manager.commit_interval) == (1800, 1)
    assert manager.commit_interval == StreamSettings.model_fields["commit_interval"].default


def test_the_second_yaml_block_names_the_consumer_that_the_command_registers():
    _, manager = managers()
    assert (manager.follow_for, manager.consumer) == (1800, "lake")
    assert "\nkinesis-assets consumer register --stream clicks --name lake\n" in PAGE


def test_the_next_run_is_requested_as_early_as_documented():
    def handover(**fields):
        resources = build_kinesis_stream("clicks", table="clicks", **fields).resources or {}
        return resources[io_manager_key("clicks")].handover

    assert handover(follow_for=1800, sensor_interval_seconds=20) == 20 + 30
    assert handover(follow_for=60) == 30
