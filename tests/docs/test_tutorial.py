"""Every command and Python block of docs/tutorial.md does what the page says, in its order."""

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
def pages_folder(kinesis, settings, tmp_path, monkeypatch):
    """An empty folder, and the stream of the page where the SDK's environment leads."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", str(settings.endpoint_url))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    kinesis.delete_stream(StreamName="clicks", EnforceConsumerDeletion=True)


def run(line: str) -> int:
    program, *arguments = shlex.split(line)
    command = [str(Path(sys.executable).with_name(program)), *arguments]
    return subprocess.run(command, check=False, timeout=300).returncode


def test_the_tutorial_ends_with_every_record_in_the_table_once(pages_folder):
    names = {"boto3": boto3}
    codes = []
    for language, text in BLOCKS:
        if language == "python":
            exec(text, names)  # noqa: S102  # the page's own lines
        else:
            ours = [line for line in text.splitlines() if line.startswith("kinesis-assets")]
            codes += [(line.split()[1], run(line)) for line in ours if line.split()[1] != "local"]
    assert codes == [("run", 0), ("positions", 0), ("run", 0), ("run", 0), ("doctor", 1), ("replay", 0)]
    data = DeltaTable(pages_folder / "clicks").to_pyarrow_table(columns=["data"])["data"].to_pylist()
    assert sorted(data) == sorted(f'{{"click": {number}}}'.encode() for number in range(300))
