"""Processes of a Spark server and of the runs that connect to it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.harness.waiting import SECONDS

SCRIPT = Path(sys.prefix, "bin", "kinesis-assets")


def processes_with(marker, file="environ"):
    """Return the processes with a marker in their environment, or in another of their files in /proc."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (process / file).read_bytes():
                found.add(int(process.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # the process has ended, or belongs to another user
    return found


def children(pid, command):
    """Return the child processes of a process that run a command."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            name, _, fields = (process / "stat").read_text().partition("(")[2].rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process has ended
        if name == command and int(fields.split()[1]) == pid:
            found.append(int(process.name))
    return found


def result_of(run):
    """Wait for a run, and return its exit code, its JSON output and its errors."""
    out, err = run.communicate(timeout=SECONDS)
    return run.returncode, [json.loads(line) for line in out.splitlines()], err
