"""The commands and the YAML and Python blocks of the README run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kinesis_assets import KinesisStreamComponent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kinesis_assets.kinesis.settings import ClientSettings

PROJECT = Path(__file__).parents[2]
README = (PROJECT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines]


@pytest.fixture
def clicks(kinesis: Any, monkeypatch: pytest.MonkeyPatch, settings: ClientSettings) -> Any:
    """The README's stream on the emulator, with ten records."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", str(settings.endpoint_url))
    kinesis.create_stream(StreamName="clicks", ShardCount=1)
    entries = [{"Data": b"click", "PartitionKey": str(number)} for number in range(10)]
    kinesis.put_records(StreamName="clicks", Records=entries)
    yield
    kinesis.delete_stream(StreamName="clicks")


def test_the_commands_run(clicks: Any, tmp_path: Path) -> None:
    del clicks
    own = [command for command in commands() if command[0] == "kinesis-assets"]
    assert [command[1] for command in own] == ["run", "positions"]
    for command in own:
        program = str(Path(sys.executable).with_name(command[0]))
        subprocess.run([program, *command[1:]], cwd=tmp_path, check=True, capture_output=True, timeout=300)


def test_the_make_targets_exist() -> None:
    documented = {command[1] for command in commands() if command[0] == "make"}
    inline = re.findall(r"`make ([a-z ]+)`", README)
    documented |= {target for words in inline for target in words.split()}
    targets = re.findall(r"^([a-z]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    assert documented >= {"demo", "test", "dev"}
    assert documented <= set(targets)


def test_the_yaml_block_defines_a_stream() -> None:
    (text,) = blocks("yaml")
    document = yaml.safe_load(text)
    assert document["type"] == "kinesis_assets.KinesisStreamComponent"
    definitions = KinesisStreamComponent(**document["attributes"]).build_defs(None)
    assert {asset.key.path[-1] for asset in definitions.resolve_all_asset_specs()} == {"clicks", "clicks_raw"}


def test_the_python_block_reads_the_stream(clicks: Any, spark: SparkSession) -> None:
    del clicks
    (source,) = blocks("python")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    source = source.replace("2026-01-31T12:00:00Z", now).replace("spark.read", "frame = spark.read")
    names: dict[str, Any] = {"spark": spark}
    exec(source, names)  # noqa: S102  # the code of the README
    assert names["frame"].columns[:3] == ["stream", "shard_id", "sequence_number"]


def test_the_pictures_exist() -> None:
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", README)
    assert len(pictures) == 2
    assert all((PROJECT / picture).read_bytes().startswith(b"\x89PNG") for picture in pictures)
