"""The clock of a process, which a library that it preloads shifts. Only on Linux."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("shifted_clock.c")

MACHINE_CLOCK = {"LD_PRELOAD": ""}
"""The environment variables of a process with this machine's clock."""


def shifted_clock(seconds_ahead: int, library: Path) -> dict[str, str]:
    """Compile a library that shifts the clock of the processes that preload it.

    Args:
        seconds_ahead: How far the clock is ahead of this machine's.

    Returns:
        The environment variables of such a process.
    """
    offset = f"-DSECONDS_AHEAD={seconds_ahead}"
    command = ["cc", "-shared", "-fPIC", "-O1", offset, "-o", str(library), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {"LD_PRELOAD": str(library)}
