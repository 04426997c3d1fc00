"""A driver in a process of its own, which waits before each commit for the test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from benchmarks.harness.waiting import SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from support.hosts import Host
    from support.pipeline import Pipeline

RACING_RUN = Path(__file__).with_name("racing_run.py")
READY = "ready to commit"


class Racer:
    """A process that materializes shards, round by round. It ends with the context.

    Args:
        host: Where it runs; None for this machine.
        variables: Environment variables beside those of this process.
    """

    def __init__(self, host: Host | None = None, variables: Mapping[str, str] = MappingProxyType({})) -> None:
        command = [sys.executable, str(RACING_RUN)]
        self._errors = TemporaryFile()  # noqa: SIM115  # closed at the end of the context
        self._process = subprocess.Popen(
            command if host is None else host.command(*command),
            env={**os.environ, **variables, **({} if host is None else host.environment)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        assert self._read_line() == "started"
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:  # the test has failed in the middle of a round
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
        self._errors.close()

    def start(self, pipeline: Pipeline, shard_ids: Sequence[str]) -> None:
        """Start to materialize shards."""
        self._write_line(pipeline.run_in_process(shard_ids))

    def wait_until_ready(self) -> None:
        """Wait until the rows are written and only the commit is missing."""
        assert self._read_line() == READY

    def commit(self) -> None:
        """Let the process commit."""
        self._write_line("commit")

    def events(self) -> list[dict[str, Any]]:
        """Wait for the end of the round, and return the event metadata of each shard."""
        events: list[dict[str, Any]] = json.loads(self._read_line())
        assert isinstance(events, list), events
        return events

    def race(self, pipeline: Pipeline, shard_ids: Sequence[str]) -> list[dict[str, Any]] | str:
        """Materialize shards without waiting for the test.

        Returns:
            The event metadata of each shard, or the error of the run.
        """
        self.start(pipeline, shard_ids)
        while (line := self._read_line()) == READY:
            self.commit()
        result: list[dict[str, Any]] | str = json.loads(line)
        return result

    def _write_line(self, line: str) -> None:
        assert self._process.stdin is not None
        print(line, file=self._process.stdin, flush=True)

    def _read_line(self) -> str:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            self._errors.seek(0)
            raise AssertionError(self._errors.read().decode())
        return line.strip()
