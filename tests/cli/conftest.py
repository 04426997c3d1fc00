"""Fixtures of the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from kinesis_assets import cli as command_line

if TYPE_CHECKING:
    from kinesis_assets.kinesis.settings import ClientSettings


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    exit_code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def by_shard(self) -> dict[str, dict[str, Any]]:
        """The JSON lines, one a shard."""
        found = {line["shard"]: line for line in self.lines}
        assert len(found) == len(self.lines)
        return found


class Run(Protocol):
    """Runs a command to its end."""

    def __call__(self, *arguments: str) -> Done: ...


@pytest.fixture(autouse=True)
def no_dagster_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`kinesis-assets` in this process, by the entry point that the script calls."""

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["kinesis-assets", *arguments])
        capsys.readouterr()
        try:
            command_line.main()
        except SystemExit as end:
            code = end.code
        else:
            code = 0
        printed = capsys.readouterr()
        assert isinstance(code, int)
        return Done(code, printed.out, printed.err)

    return run


@pytest.fixture
def script(tmp_path: Path) -> Run:
    """`kinesis-assets` as a user starts it: the installed script, in a folder that is not the project's."""

    def run(*arguments: str) -> Done:
        done = subprocess.run(
            [Path(sys.prefix, "bin", "kinesis-assets"), *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def of_stream(stream: str, settings: ClientSettings, tmp_path: Path) -> list[str]:
    """The options by which a command finds the test's stream and table."""
    place = ["--table", str(tmp_path / "table"), "--endpoint-url", str(settings.endpoint_url)]
    return ["--stream", stream, *place]
