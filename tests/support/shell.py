"""A shell in which commands are typed one after another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from benchmarks.harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

# Where the tests ignore SIGINT, as those that were started in the background, the shell's commands would too.
_BASH = "import os, signal; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp('bash', ['bash'])"


class Shell:
    """A shell.

    Args:
        cwd: Its working directory.
        env: Its variables.
        files: A new folder for what it prints.

    Attributes:
        log: What its commands have printed.
    """

    def __init__(self, cwd: Path, env: Mapping[str, str], files: Path) -> None:
        files.mkdir()
        self.log = files / "log"
        self._status = files / "status"
        with self.log.open("wb") as output:
            self._bash = subprocess.Popen(
                [sys.executable, "-c", _BASH],
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,  # so that `interrupt` reaches its commands only
            )

    @classmethod
    @contextmanager
    def opened(cls, cwd: Path, env: Mapping[str, str], files: Path) -> Iterator[Shell]:
        """Open a shell, and end what runs in it afterwards."""
        shell = cls(cwd, env, files)
        try:
            yield shell
        finally:
            shell._close()

    def run(self, command: str) -> str:
        """Run a command, which must succeed, and return what was printed meanwhile."""
        before = self.log.stat().st_size
        self.start(command)
        wait_until(self._ended, self._bash, failure=self.log)
        assert self._status.read_text() == "0\n", self.log.read_text()
        return self.log.read_bytes()[before:].decode()

    def start(self, command: str) -> None:
        """Start a command."""
        assert self._bash.stdin is not None
        self._status.unlink(missing_ok=True)
        # As one compound command: the shell reads all of it before the command could read its standard input.
        self._bash.stdin.write(f"{{\n{command}\n}}; echo $? > '{self._status}'\n")
        self._bash.stdin.flush()

    def interrupt(self) -> None:
        """Press Ctrl-C, and wait until the command has ended."""
        os.killpg(self._bash.pid, signal.SIGINT)
        wait_until(lambda: self._bash.poll() is not None or self._ended(), failure=self.log)

    def _ended(self) -> bool:
        return self._status.is_file() and self._status.stat().st_size > 0

    def _close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.communicate()
