"""The peak of the resident memory of a process and its descendants, such as Java and Python workers."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SAMPLE_SECONDS = 0.1


@contextmanager
def peaks_of_tree(pid: int) -> Iterator[Counter[str]]:
    """Yield the highest memory in MiB by the name of a program, and of all together under "", so far.

    The processes of a program count together. Pages that they share count for each of them.
    """
    peaks: Counter[str] = Counter()
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(SAMPLE_SECONDS):
            now = mib_of_tree(pid)
            now[""] = now.total()
            peaks.update({name: mib - peaks[name] for name, mib in now.items() if mib > peaks[name]})

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        ended.set()
        thread.join()


def mib_of_tree(pid: int) -> Counter[str]:
    """Return the memory of a process and its descendants by program. Those that end meanwhile have none."""
    try:
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
        )
        children = Path(f"/proc/{pid}/task").glob("*/children")
        pids = [int(child) for listed in children for child in listed.read_text().split()]
    except OSError:
        return Counter()
    found = Counter({status["Name"].strip(): int(status.get("VmRSS", "0").split()[0]) // 1024})
    return sum(map(mib_of_tree, pids), found)
