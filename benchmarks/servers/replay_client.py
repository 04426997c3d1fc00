"""The replay server as its user sees it: a process of its own, and what it is told."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.servers.replay_streams import StreamSpec


@dataclass(frozen=True)
class ReplayServer:
    """A running replay server.

    Attributes:
        url: Its endpoint.
        pid: Its process.
    """

    url: str
    pid: int

    def create(self, spec: StreamSpec) -> None:
        """Serve a stream, whose pages are made now."""
        self._control("create", spec)

    def delete(self, stream: str) -> None:
        """Serve it no more, and forget its pages."""
        self._control("delete", stream)

    def latency(self, milliseconds: float) -> None:
        """Let every answer from now on take so long."""
        self._control("latency", milliseconds)

    def calls(self) -> dict[str, int]:
        """Calls by operation since this was last asked."""
        return msgspec.json.decode(self._control("calls", None), type=dict[str, int])

    def _control(self, command: str, argument: object) -> bytes:
        body = msgspec.json.encode(argument)
        # The URL is the one that our own process printed.
        request = urllib.request.Request(f"{self.url}/control/{command}", data=body, method="POST")  # noqa: S310
        with urllib.request.urlopen(request, timeout=300) as answer:  # noqa: S310
            told: bytes = answer.read()
        return told


@contextmanager
def replay_server() -> Iterator[ReplayServer]:
    """A replay server without a stream, up until the end of the block."""
    command = [sys.executable, "-m", "benchmarks.servers.replay_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield ReplayServer(process.stdout.readline().strip(), process.pid)
        finally:
            process.terminate()
