"""The commands and Python blocks of docs/tutorial.md run in order, with the described results."""

from __future__ import annotations

import re
import shlex
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
    for stream in ("clicks", "orders"):
        kinesis.delete_stream(StreamName=stream, EnforceConsumerDeletion=True)


@pytest.mark.usefixtures("spark")
def test_the_tutorial_ends_with_each_record_exactly_once_and_typed(folder, cli):
    names = {"boto3": boto3}
    codes = []
    for language, text in BLOCKS:
        if language == "python":
            exec(text, names)  # noqa: S102  # the code of the page
        else:
            commands = [
                shlex.split(line)[1:] for line in text.splitlines() if line.startswith("kinesis-assets")
            ]
            codes += [(command[0], cli(*command).exit_code) for command in commands if command[0] != "local"]
    repaired = [("run", 0), ("positions", 0), ("run", 0), ("run", 0), ("doctor", 1), ("replay", 0)]
    assert codes == [*repaired, ("run", 0), ("run", 0)]
    data = DeltaTable(folder / "clicks").to_pyarrow_table(columns=["data"])["data"].to_pylist()
    assert sorted(data) == sorted(f'{{"click": {number}}}'.encode() for number in range(300))
    assert rows(folder / "derived/orders", "order_id", "total") == [
        ("ord-1", 20),
        ("ord-2", 40),
        ("ord-3", 9.9),
    ]
    assert rows(folder / "derived/revenue_by_day", "orders", "revenue") == [(1, 9.9), (2, 60)]


def rows(table: Path, *columns: str) -> list[tuple[object, ...]]:
    return sorted(
        tuple(row[name] for name in columns) for row in DeltaTable(table).to_pyarrow_table().to_pylist()
    )
