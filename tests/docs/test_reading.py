"""docs/reading.md agrees with the settings of the code."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from pathlib import Path

import boto3
import pytest
import yaml

from kinesis_assets import KinesisStreamComponent, build_kinesis_stream
from kinesis_assets.cli.options import parse_settings
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.start_positions import StartPositions
from support.dagster_components import definitions_of
from support.stream_names import io_manager_key

PAGE = (Path(__file__).parents[2] / "docs" / "reading.md").read_text()
YAMLS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
STARTS = re.findall(r"^\| `([A-Z_]+(?::[^`]+)?)` \|", PAGE, re.MULTILINE)


def test_the_yaml_block_reads_a_stream_by_its_arn():
    attributes = yaml.safe_load(YAMLS[0])["attributes"]
    resources = definitions_of(KinesisStreamComponent(**attributes)).resources or {}
    assert str(resources[io_manager_key("clicks")].opened.client.address) == attributes["stream"]


def test_the_documented_policy_allows_to_read_another_accounts_stream(local_kinesis, settings, stream):
    (text,) = re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (statement,) = json.loads(text)["Statement"]
    assert statement["Resource"] == yaml.safe_load(YAMLS[0])["attributes"]["stream"]
    owner = boto3.client(
        "kinesis",
        endpoint_url=local_kinesis.endpoint_url,
        region_name=local_kinesis.region,
        aws_access_key_id=statement["Resource"].split(":")[4],
        aws_secret_access_key="any",  # noqa: S106  # the emulator verifies no signature
    )
    owner.create_stream(StreamName=stream, ShardCount=1)
    arn = f"arn:aws:kinesis:us-east-1:111122223333:stream/{stream}"
    local_kinesis.share(arn, statement["Action"])
    client = StreamClient(arn, settings)
    client.describe()
    (shard,) = client.list_shards()
    client.get_records(client.shard_iterator(shard.shard_id, Position.parse("TRIM_HORIZON")), 1)


@pytest.mark.parametrize("start", STARTS)
def test_each_documented_start_is_valid(start):
    assert str(StartPositions.of(start)) == start


def test_every_kind_of_start_is_documented():
    assert len({start.partition(":")[0] for start in STARTS}) == 5


def test_the_yaml_block_defines_a_start_for_each_shard():
    attributes = yaml.safe_load(YAMLS[1])["attributes"]
    resources = definitions_of(KinesisStreamComponent(**attributes)).resources or {}
    assert resources[io_manager_key("clicks")].opened.policy.starts == StartPositions.of(attributes["start"])


def test_the_documented_command_has_the_documented_settings():
    (line,) = re.findall(r"^```sh\n(.*?)\n```", PAGE, re.MULTILINE | re.DOTALL)
    words = shlex.split(line)
    pairs = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
    assert words[:2] == ["kinesis-assets", "run"]
    assert parse_settings(pairs) == {"max_records": 1000, "spark_config": {"spark.master": "local[2]"}}


def test_every_documented_setting_exists():
    named = set(re.findall(r"`((?:max|on)_[a-z_]+|start|sdk_parser)", PAGE))
    assert named <= inspect.signature(build_kinesis_stream).parameters.keys()
    assert len(named) == 12
