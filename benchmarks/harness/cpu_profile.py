"""A sampling profiler of CPU time over all threads of this process.

At short intervals it reads the CPU clock of each thread, and attributes the CPU time since the last sample to
the function of this package, or to the package, in which the thread is now. Unlike a tracing profiler it
covers all threads, and it slows down the profiled code only a little.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from benchmarks.harness.cpu import thread_cpu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

SAMPLE_INTERVAL = 0.0005
SWITCH_INTERVAL = 0.0001
"""Seconds after which the interpreter switches threads. With its default of 5 ms, most samples would be taken
while a thread waits for the network, whatever it did before."""

OURS = "kinesis_assets"
STANDARD_LIBRARY = "the standard library alone"

_Result = TypeVar("_Result")


def our_function(frame: FrameType) -> str:
    """Return the function of this package that is running, and the package that it has called."""
    leaf = _package(frame)
    for caller in _callers(frame):
        if _package(caller) == OURS:
            module = _module(caller).removeprefix(f"{OURS}.")
            called = "" if leaf == OURS else f", in {leaf}"
            return f"`{module}.{caller.f_code.co_name}`{called}"
    return f"elsewhere, in {leaf}"


def package(frame: FrameType) -> str:
    """Return the package that is running, or that has called the standard library; for Dagster, the
    subpackage.
    """
    for caller in _callers(frame):
        found = _package(caller)
        # Generated code may name a module that does not exist.
        if found in sys.modules and found not in sys.stdlib_module_names:
            parts = _module(caller).split(".")
            return f"`{'.'.join(parts[: 2 if parts[0] == 'dagster' else 1])}`"
    return STANDARD_LIBRARY


def profile(
    work: Callable[[], _Result], location: Callable[[FrameType], str] = our_function
) -> tuple[_Result, dict[str, float]]:
    """Profile a function.

    Args:
        work: The function.
        location: Maps the frame of a running thread to the name that its CPU time is attributed to.

    Returns:
        The result of the function, and CPU seconds by location.
    """
    seconds: dict[str, float] = {}
    finished = threading.Event()

    def sample() -> None:
        clocks: dict[int, float] = {}
        while not finished.wait(SAMPLE_INTERVAL):
            ids = {
                thread.ident: thread.native_id for thread in threading.enumerate() if thread is not sampler
            }
            for thread, frame in sys._current_frames().items():  # noqa: SLF001  # the way to see threads
                native_id = ids.get(thread)
                if native_id is None:
                    continue
                try:
                    clock = thread_cpu(native_id)
                except OSError:
                    continue  # the thread ended in the meantime
                before = clocks.get(native_id, clock)
                clocks[native_id] = clock
                # A new thread may have the id of one that ended.
                if clock > before:
                    busy = location(frame)
                    seconds[busy] = seconds.get(busy, 0.0) + clock - before

    sampler = threading.Thread(target=sample, daemon=True)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    sampler.start()
    try:
        result = work()
    finally:
        sys.setswitchinterval(interval)
        finished.set()
        sampler.join()
    return result, seconds


def hottest(seconds: Mapping[str, float], count: int = 8) -> list[tuple[str, float]]:
    """Return the locations with the most CPU time, each with its share of the total, 0 to 1."""
    total = sum(seconds.values()) or 1.0
    ordered = sorted(seconds.items(), key=lambda item: -item[1])[:count]
    return [(location, each / total) for location, each in ordered]


def _callers(frame: FrameType) -> Iterator[FrameType]:
    """Yield a frame, its caller, and so on."""
    current: FrameType | None = frame
    while current is not None:
        yield current
        current = current.f_back


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", Path(frame.f_code.co_filename).stem))


def _package(frame: FrameType) -> str:
    return _module(frame).partition(".")[0]
