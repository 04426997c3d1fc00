"""Invalid options and YAML fields are bad input in one line, and change nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets import cli as command_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kinesis_assets.kinesis.settings import ClientSettings

PASSWORD = "PASS/WORD"  # noqa: S105  # means nothing, but must be found nowhere
NAMES = {
    "path": "../../../etc/passwd",
    "sql": "'; DROP TABLE rows; --",
    "shell": "$(touch outside)",
    "lines": "a\nb",
    "colours": "\x1b[31mred",
    "unicode": "ünï𝄞",
    "long": "x" * 10_000,
    "empty": "",
    "not UTF-8": "\udcff",
}
TABLES = {
    "lines": "a\nb",
    "long": "x" * 10_000,
    "not UTF-8": "\udcff",
    "upwards": "s3://lake/../other",
    "password": f"s3://AKIA:{PASSWORD}@lake/orders",
    "query": f"s3://lake/orders?secret_key={PASSWORD}",
    "nobody's": "~nobody-has-this-name/orders",
    "unknown": "javascript://x",
}


def each(cases: dict[str, str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("given", cases.values(), ids=cases.keys())


@pytest.fixture
def refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., str]:
    """Runs a command in an empty folder: it must exit with 2 and one line, and create nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["kinesis-assets", *arguments])
        with pytest.raises(SystemExit) as end:
            command_line.main()
        printed = capsys.readouterr()
        assert (end.value.code, printed.out) == (2, "")
        (line,) = printed.err.splitlines()
        assert line.startswith("Error: ")
        assert line.isprintable()
        assert PASSWORD not in line
        assert list(tmp_path.iterdir()) == []
        return line

    return run


@pytest.mark.parametrize("command", ["run", "positions"])
@each(NAMES)
def test_an_invalid_stream_name_is_bad_input(refused: Any, command: str, given: str) -> None:
    assert "stream name" in refused(command, f"--stream={given}", "--table=orders")


@each(NAMES)
def test_a_stream_without_a_yaml_is_bad_input(refused: Any, given: str) -> None:
    refused("run", f"--stream={given}")


@each(NAMES)
def test_an_invalid_shard_is_bad_input(
    refused: Any, kinesis: Any, settings: ClientSettings, stream: str, given: str
) -> None:
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    place = [f"--stream={stream}", "--table=orders", f"--endpoint-url={settings.endpoint_url}"]
    assert "no shard" in refused("run", *place, f"--shard={given}")


@each(TABLES)
def test_an_invalid_table_is_bad_input(refused: Any, given: str) -> None:
    refused("run", "--stream=orders", f"--table={given}")


@each(NAMES)
def test_an_invalid_start_is_bad_input(refused: Any, given: str) -> None:
    refused("run", "--stream=orders", "--table=orders", f"--start={given}")


@pytest.mark.parametrize("given", [f"http://user:{PASSWORD}@127.0.0.1:1", "nowhere", "http://a\nb"])
def test_an_invalid_endpoint_is_bad_input(refused: Any, given: str) -> None:
    refused("run", "--stream=orders", "--table=orders", f"--endpoint-url={given}")


@pytest.mark.parametrize("given", ["../x", "us-east-1'", "a b"])
def test_an_invalid_region_is_bad_input(refused: Any, given: str) -> None:
    refused("run", "--stream=orders", "--table=orders", f"--region={given}")
