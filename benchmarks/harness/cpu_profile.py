"""Where the CPU of this process goes: a profile over all threads, by samples.

Again and again each thread's CPU clock is read, and what it has had since the last look counts for the
function of this package, or for the package, in which it is now. Unlike a tracing profiler it sees threads,
and it slows down what it looks at by little.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

SECONDS_BETWEEN_SAMPLES = 0.0005
SWITCH_INTERVAL = 0.0001
"""Seconds after which the interpreter takes turns: at its own five thousandths, a sample would mostly come
where a thread waits for the network, whatever it did before."""

OURS = "kinesis_assets"
STANDARD_LIBRARY = "the standard library alone"

_Result = TypeVar("_Result")


def our_function(frame: FrameType) -> str:
    """The function of ours that is busy, and the package that it is busy in."""
    leaf = _package(frame)
    for caller in _callers(frame):
        if _package(caller) == OURS:
            module = _module(caller).removeprefix(f"{OURS}.")
            busy_in = "" if leaf == OURS else f", in {leaf}"
            return f"`{module}.{caller.f_code.co_name}`{busy_in}"
    return f"elsewhere, in {leaf}"


def package(frame: FrameType) -> str:
    """The package that is busy, also while it has the standard library do something; Dagster by its parts."""
    for caller in _callers(frame):
        found = _package(caller)
        # Code that is made on the way names modules that are none.
        if found in sys.modules and found not in sys.stdlib_module_names:
            parts = _module(caller).split(".")
            return f"`{'.'.join(parts[: 2 if parts[0] == 'dagster' else 1])}`"
    return STANDARD_LIBRARY


def sampled(
    work: Callable[[], _Result], where: Callable[[FrameType], str] = our_function
) -> tuple[_Result, dict[str, float]]:
    """Do some work; what it gives, and CPU seconds by where it was busy."""
    spent: dict[str, float] = {}
    over = threading.Event()

    def watch() -> None:
        clocks: dict[int, float] = {}
        while not over.wait(SECONDS_BETWEEN_SAMPLES):
            ids = {
                thread.ident: thread.native_id for thread in threading.enumerate() if thread is not watcher
            }
            for thread, frame in sys._current_frames().items():  # noqa: SLF001  # the way to see threads
                native = ids.get(thread)
                if native is None:
                    continue
                try:
                    clock = time.clock_gettime(_cpu_clock(native))
                except OSError:
                    continue  # it ended meanwhile
                before = clocks.get(native, clock)
                clocks[native] = clock
                # A thread may have the id of one that ended.
                if clock > before:
                    busy = where(frame)
                    spent[busy] = spent.get(busy, 0.0) + clock - before

    watcher = threading.Thread(target=watch, daemon=True)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    watcher.start()
    try:
        result = work()
    finally:
        sys.setswitchinterval(interval)
        over.set()
        watcher.join()
    return result, spent


def hottest(spent: Mapping[str, float], count: int = 8) -> list[tuple[str, float]]:
    """The functions that had most, each with its share of all, 0 to 1."""
    total = sum(spent.values()) or 1.0
    most = sorted(spent.items(), key=lambda item: -item[1])[:count]
    return [(where, seconds / total) for where, seconds in most]


def _cpu_clock(native: int) -> int:
    """Linux' clock of a thread's CPU. Python's own way to it takes no thread that may just have ended."""
    return (~native << 3) | 6


def _callers(frame: FrameType) -> Iterator[FrameType]:
    """A frame, then who called it."""
    current: FrameType | None = frame
    while current is not None:
        yield current
        current = current.f_back


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", Path(frame.f_code.co_filename).stem))


def _package(frame: FrameType) -> str:
    return _module(frame).partition(".")[0]
