"""The commands and Python blocks of docs/tutorial.md run in order, with the described results."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import boto3
import pytest
from deltalake import DeltaTable

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()
BLOCKS = re.findall(r"^```(sh|python)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(kinesis, settings, tmp_path, monkeypatch):
    """An empty working directory; the tutorial creates its stream on the emulator."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", str(settings.endpoint_url))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    kinesis.delete_stream(StreamName="clicks", EnforceConsumerDeletion=True)


def run(line: str) -> int:
    program, *arguments = shlex.split(line)
    command = [str(Path(sys.executable).with_name(program)), *arguments]
    return subprocess.run(command, check=False, timeout=300).returncode


def test_the_tutorial_ends_with_each_record_exactly_once(folder):
    names = {"boto3": boto3}
    codes = []
    for language, text in BLOCKS:
        if language == "python":
            exec(text, names)  # noqa: S102  # the code of the page
        else:
            commands = [line for line in text.splitlines() if line.startswith("kinesis-assets")]
            codes += [(line.split()[1], run(line)) for line in commands if line.split()[1] != "local"]
    assert codes == [("run", 0), ("positions", 0), ("run", 0), ("run", 0), ("doctor", 1), ("replay", 0)]
    data = DeltaTable(folder / "clicks").to_pyarrow_table(columns=["data"])["data"].to_pylist()
    assert sorted(data) == sorted(f'{{"click": {number}}}'.encode() for number in range(300))
