"""Where the CPU of this process goes: a profile over all threads, by samples.

Every few milliseconds each thread's CPU clock is read, and what it has had since the last look counts for
the function of this package in which it is now. Unlike a tracing profiler it sees threads, and it slows
down what it looks at by little.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

SECONDS_BETWEEN_SAMPLES = 0.002
OURS = "kinesis_assets"

_Result = TypeVar("_Result")


def sampled(work: Callable[[], _Result]) -> tuple[_Result, Counter[str]]:
    """Do some work; what it gives, and CPU seconds by function of ours and the package it was busy in."""
    seconds: Counter[str] = Counter()
    over = threading.Event()

    def watch() -> None:
        clocks: dict[int, float] = {}
        own = threading.get_ident()
        while not over.wait(SECONDS_BETWEEN_SAMPLES):
            for thread, frame in sys._current_frames().items():  # noqa: SLF001  # the way to see threads
                if thread == own:
                    continue
                try:
                    clock = time.clock_gettime(time.pthread_getcpuclockid(thread))
                except OSError:
                    continue  # it ended meanwhile
                before = clocks.get(thread)
                clocks[thread] = clock
                # A thread may have the id of one that ended.
                if before is not None and clock > before:
                    seconds[_where(frame)] += clock - before  # type: ignore[assignment]

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        result = work()
    finally:
        over.set()
        watcher.join()
    return result, seconds


def hottest(seconds: Counter[str], count: int = 8) -> list[tuple[str, float]]:
    """The functions that had most, each with its share of all, 0 to 1."""
    total = sum(seconds.values()) or 1.0
    return [(where, spent / total) for where, spent in seconds.most_common(count)]


def _where(frame: FrameType) -> str:
    leaf = _package(frame)
    current: FrameType | None = frame
    while current is not None:
        if _package(current) == OURS:
            module = str(current.f_globals.get("__name__", "")).removeprefix(f"{OURS}.")
            busy_in = "" if leaf == OURS else f", in {leaf}"
            return f"`{module}.{current.f_code.co_name}`{busy_in}"
        current = current.f_back
    return f"elsewhere, in {leaf}"


def _package(frame: FrameType) -> str:
    name = str(frame.f_globals.get("__name__", Path(frame.f_code.co_filename).stem))
    return name.partition(".")[0]
