"""CPU time of processes and threads, read from Linux."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _USER, _CHILDREN_SYSTEM = 1, 11, 14
"""Indexes of the fields of /proc/<pid>/stat that follow the name of the command."""


@dataclass(frozen=True)
class Usage:
    """What a piece of work took.

    Attributes:
        cpu: CPU seconds of a process tree.
        wall: Seconds of wall-clock time.
    """

    cpu: float
    wall: float


def tree_cpu(pid: int) -> float:
    """Return the CPU seconds of a process and all its descendants so far.

    They are the user and system time of every process of the tree, including processes that have ended and
    were waited for, in steps of 10 ms.
    """
    stats: dict[int, list[str]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "stat").read_text(encoding="latin-1")
            except (FileNotFoundError, ProcessLookupError):
                continue  # the process ended in the meantime
            stats[int(folder.name)] = text.rpartition(")")[2].split()
    children: dict[int, list[int]] = {}
    for process, fields in stats.items():
        children.setdefault(int(fields[_PARENT]), []).append(process)
    ticks, pending = 0, [pid]
    while pending:
        process = pending.pop()
        pending += children.get(process, [])
        if process in stats:
            ticks += sum(map(int, stats[process][_USER : _CHILDREN_SYSTEM + 1]))
    return ticks / _TICKS
