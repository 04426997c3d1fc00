"""The CPU time of a command and all its descendants, until the last of them has ended.

    python -m benchmarks.harness.command_usage COMMAND [ARGUMENT ...]

A JVM can outlive the process that started it, so that no process waits for it and learns its CPU time. This
module runs the command in a process that adopts all its descendants. The output of the command goes to
standard error; standard output receives the usage as JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from contextlib import suppress

from benchmarks.harness.cpu import Usage
from benchmarks.harness.paths import ROOT

TIMEOUT_SECONDS = 300
_PR_SET_CHILD_SUBREAPER = 36


class CommandFailed(Exception):
    """A command ended with an exit code other than 0. The message contains the end of its output."""


def usage_of(*argv: str, environment: dict[str, str]) -> Usage:
    """Run a command and measure it.

    Args:
        argv: The command.
        environment: Environment variables to set in addition to those of this process.

    Returns:
        CPU until the last descendant has ended; wall-clock time until the command itself has.

    Raises:
        CommandFailed: Its exit code was not 0.
    """
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.harness.command_usage", *argv],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode:
        raise CommandFailed(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    usage = json.loads(done.stdout)
    return Usage(cpu=usage["cpu"], wall=usage["wall"])


def main(argv: list[str]) -> int:
    """Run the command, print its usage, and return its exit code."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    started = time.monotonic()
    status = subprocess.run(argv, stdout=sys.stderr, check=False).returncode
    wall = time.monotonic() - started
    with suppress(ChildProcessError):  # no descendant is left
        while True:
            os.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({"cpu": used.ru_utime + used.ru_stime, "wall": wall}))  # noqa: T201  # read by `usage_of`
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
