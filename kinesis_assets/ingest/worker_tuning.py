"""Tuning of a Spark Python worker: its memory allocators and its garbage collector."""

from __future__ import annotations

import ctypes
import gc
import sys
from functools import cache

import pyarrow as pa

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h
_LARGE = 32 << 20  # glibc's maximum; mapping memory for each page of records would cost CPU


@cache
def configure_allocators() -> None:
    """Make all threads share freed memory, and return most of it to the system.

    By default each thread keeps the memory that it has freed: Arrow's own allocator uses one heap for each
    thread, glibc up to eight arenas for each core. Since some threads read the pages that others write, a
    worker would keep several times the memory in use. One arena is enough, because only one thread at a time
    holds Python's lock.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE)
        mallopt(_M_TRIM_THRESHOLD, _LARGE)
        mallopt(_M_ARENA_MAX, 1)


@cache
def freeze_loaded_objects() -> None:
    """Exclude all objects that exist after a worker's first task from garbage collection.

    Spark collects garbage after each task and would traverse every module again: 40 ms of CPU for each task.
    """
    gc.collect()
    gc.freeze()
