"""The commands and the YAML block of the README are valid."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from benchmarks.harness.waiting import SECONDS
from kinesis_assets import KinesisStreamComponent
from support.dagster_components import definitions_of

if TYPE_CHECKING:
    from support.command_line import RunCommand

PROJECT = Path(__file__).parents[2]
README = (PROJECT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines]


@pytest.mark.usefixtures("clicks", "spark")
def test_the_commands_run(cli: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    documented = [arguments for program, *arguments in commands() if program == "kinesis-assets"]
    assert [arguments[0] for arguments in documented] == ["run", "positions"]
    for arguments in documented:
        assert cli(*arguments).exit_code == 0


def test_the_make_targets_exist() -> None:
    documented = {command[1] for command in commands() if command[0] == "make"}
    inline = re.findall(r"`make ([a-z ]+)`", README)
    documented |= {target for words in inline for target in words.split()}
    targets = re.findall(r"^([a-z]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    assert documented >= {"demo", "dev"}
    assert documented <= set(targets)


def test_make_demo_runs_the_demonstration() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "demo"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == ".venv/bin/kinesis-assets demo"


def test_the_yaml_block_defines_a_stream() -> None:
    (text,) = blocks("yaml")
    document = yaml.safe_load(text)
    assert document["type"] == "kinesis_assets.KinesisStreamComponent"
    definitions = definitions_of(KinesisStreamComponent(**document["attributes"]))
    assert {asset.key.path[-1] for asset in definitions.resolve_all_asset_specs()} == {"clicks", "clicks_raw"}


def test_the_pictures_exist() -> None:
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", README)
    assert len(pictures) == 2
    assert all((PROJECT / picture).read_bytes().startswith(b"\x89PNG") for picture in pictures)
