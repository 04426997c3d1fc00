"""A command as a process that adopts all its descendants sees it: what they all cost, to the last one's end.

    python -m benchmarks.harness.process_tree COMMAND [ARGUMENT ...]

A JVM outlives the process that it was started for, so that nobody waits for it who could tell its CPU. What
the command prints goes to standard error; standard output gets its usage as JSON.
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

from benchmarks.harness.measure import ROOT, ChildFailed, Usage

SECONDS = 300
_PR_SET_CHILD_SUBREAPER = 36


def spent(*argv: str, environment: dict[str, str]) -> Usage:
    """CPU of a command and all that it started, until the last of them has ended; wall until it itself has.

    Args:
        argv: The command.
        environment: What its environment has beside this process' own.

    Raises:
        ChildFailed: It did not end with 0.
    """
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.harness.process_tree", *argv],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise ChildFailed(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    told = json.loads(done.stdout)
    return Usage(cpu=told["cpu"], wall=told["wall"])


def main(argv: list[str]) -> int:
    """Run it, and tell."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began = time.monotonic()
    status = subprocess.run(argv, stdout=sys.stderr, check=False).returncode
    wall = time.monotonic() - began
    with suppress(ChildProcessError):  # there are no more
        while True:
            os.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({"cpu": used.ru_utime + used.ru_stime, "wall": wall}))  # noqa: T201  # its answer
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
