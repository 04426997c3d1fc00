"""Every command and YAML block of the README does what the README says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from kinesis_assets import KinesisStreamComponent

PROJECT = Path(__file__).parents[2]
README = (PROJECT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines]


def test_the_commands_of_the_readme_run(clicks: Any, tmp_path: Path) -> None:
    del clicks
    ours = [command for command in commands() if command[0] == "kinesis-assets"]
    assert [command[1] for command in ours] == ["run", "positions"]
    for command in ours:
        program = str(Path(sys.executable).with_name(command[0]))
        subprocess.run([program, *command[1:]], cwd=tmp_path, check=True, capture_output=True, timeout=120)


def test_the_make_targets_of_the_readme_are_in_the_makefile() -> None:
    told = {command[1] for command in commands() if command[0] == "make"}
    inline = re.findall(r"`make ([a-z ]+)`", README)
    told |= {target for targets in inline for target in targets.split()}
    made = re.findall(r"^([a-z]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    assert told >= {"demo", "dev"}
    assert told <= set(made)


def test_the_yaml_of_the_readme_is_a_stream() -> None:
    (text,) = blocks("yaml")
    document = yaml.safe_load(text)
    assert document["type"] == "kinesis_assets.KinesisStreamComponent"
    definitions = KinesisStreamComponent(**document["attributes"]).build_defs(None)
    assert {asset.key.path[-1] for asset in definitions.resolve_all_asset_specs()} == {"clicks", "clicks_raw"}


def test_the_pictures_of_the_readme_are_there() -> None:
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", README)
    assert len(pictures) == 2
    assert all((PROJECT / picture).read_bytes().startswith(b"\x89PNG") for picture in pictures)
