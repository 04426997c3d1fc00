"""Settings of a Spark Python worker: its memory allocator and its garbage collector."""

from __future__ import annotations

import ctypes
import gc
import sys
from functools import cache

import pyarrow as pa

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h
_LARGE = 32 << 20  # the most that glibc takes; to map each page of records anew costs CPU


@cache
def give_memory_back() -> None:
    """Have free memory go to whichever thread needs some next, and most of it back to the system.

    By default each thread keeps what it once had, Arrow's own allocator in a heap for each, glibc in up to
    eight arenas a core. What one thread reads, others write to files, so that is several times what is alive.
    One thread at a time holds Python's lock, so one arena does.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE)
        mallopt(_M_TRIM_THRESHOLD, _LARGE)
        mallopt(_M_ARENA_MAX, 1)


@cache
def settle() -> None:
    """After a worker's first task: take what is loaded by then out of the garbage collector's sight.

    Spark collects garbage after each task, and would walk through every module again: 40 ms of CPU a task.
    """
    gc.collect()
    gc.freeze()
