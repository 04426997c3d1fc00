"""Processes that are forked from one that has imported the programs, because that takes most of their time.

The server has not opened a table: the Rust library behind Delta Lake does not survive a fork.
"""

from __future__ import annotations

import os
import threading
from functools import cache
from multiprocessing import forkserver, get_context
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from benchmarks.harness.waiting import wait_until
from chaos.faults import one_continuous_run, one_operation, one_run
from chaos.faults.site.fault_points import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from multiprocessing.context import ForkServerContext
    from pathlib import Path

PROGRAMS: dict[str, Callable[[dict[str, Any]], None]] = {
    "one_run.py": one_run.main,
    "one_continuous_run.py": one_continuous_run.main,
    "one_operation.py": one_operation.operate,
}
"""The programs without Spark. Each can also be executed as a script, with its arguments as JSON."""


class Forked:
    """A process that executes a program, with the methods of `subprocess.Popen` that tests call.

    Args:
        program: A name in `PROGRAMS`.
        arguments: The program's arguments.
        environment: All of its environment variables.
        folder: The folder to which it prints.
    """

    def __init__(
        self, program: str, arguments: dict[str, Any], environment: Mapping[str, str], folder: Path
    ) -> None:
        self._printed = [folder / "stdout", folder / "stderr"]
        given = (program, arguments, dict(environment), [str(path) for path in self._printed])
        self._process = _server().Process(target=_execute, args=given)
        self._polling = threading.Lock()
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        with self._polling:  # the server sends the code once
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        del timeout
        wait_until(lambda: self.poll() is not None, interval=0.005)
        code = self.poll()
        assert code is not None
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        self.wait(timeout)
        out, err = (path.read_text() if path.exists() else "" for path in self._printed)
        return out, err

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()


@cache
def _server() -> ForkServerContext:
    """Start the server. It wraps the points of what it imports, as a process with a fault does."""
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with patch.dict(os.environ, Fault("").environment()):
        forkserver.ensure_running()
    return context


def _execute(program: str, arguments: dict[str, Any], environment: dict[str, str], files: list[str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate(files, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    PROGRAMS[program](arguments)
