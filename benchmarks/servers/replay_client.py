"""Start the replay server in a process of its own, and control it."""

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
        pid: The id of its process.
    """

    url: str
    pid: int

    def create(self, spec: StreamSpec) -> None:
        """Build the pages of a stream, and serve it."""
        self._control("create", spec)

    def delete(self, stream: str) -> None:
        """Stop serving a stream, and release its pages."""
        self._control("delete", stream)

    def set_latency(self, milliseconds: float) -> None:
        """Delay every response from now on."""
        self._control("latency", milliseconds)

    def take_calls(self) -> dict[str, int]:
        """Return the number of calls by operation, and reset the counters."""
        return msgspec.json.decode(self._control("calls", None), type=dict[str, int])

    def _control(self, command: str, argument: object) -> bytes:
        body = msgspec.json.encode(argument)
        # The URL is the one that our own process printed.
        request = urllib.request.Request(f"{self.url}/control/{command}", data=body, method="POST")  # noqa: S310
        with urllib.request.urlopen(request, timeout=300) as response:  # noqa: S310
            content: bytes = response.read()
        return content


@contextmanager
def replay_server() -> Iterator[ReplayServer]:
    """Run a replay server without any stream until the end of the block."""
    command = [sys.executable, "-m", "benchmarks.servers.replay_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield ReplayServer(process.stdout.readline().strip(), process.pid)
        finally:
            process.terminate()
