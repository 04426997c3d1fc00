"""What a task's process does with memory that is free again."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

_M_MMAP_THRESHOLD = -3  # malloc.h

_LARGE = 1 << 20


@cache
def give_large_blocks_back() -> None:
    """Have the C library give blocks of 1 MiB and more back to the system as soon as they are free.

    glibc does so at first, but keeps blocks of up to 32 MiB once one has been freed: then each thread's heap
    holds on to pages long gone, and a task is three times as large as what is alive in it.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE)
