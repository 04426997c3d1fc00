"""Commands on a terminal."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress


def printed_on_a_terminal(*command: str) -> str:
    """Run a command whose standard output and standard error are a terminal, and return what it prints."""
    terminal, end = os.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    printed = b""
    with subprocess.Popen(command, stdout=end, stderr=end, env=environment) as process:
        os.close(end)
        with suppress(OSError):  # so ends the output of a terminal on Linux
            while piece := os.read(terminal, 1 << 16):
                printed += piece
    os.close(terminal)
    assert process.returncode == 0, printed
    return printed.decode()
