"""Free memory that the host of a virtual machine has taken back.

A host may take back memory that its guest does not use (a balloon that reports free pages), and returns it
when the guest writes to it. The guest counts that as system time of the process that writes: a process that
writes many files would then pay for memory that another process has released.
"""

from __future__ import annotations

import mmap
import os

MAX_BYTES = 3 << 29
"""1.5 GiB, three times what a landing of the largest stream here writes."""


def reclaim_from_host(data_bytes: int) -> None:
    """Get free memory back from the host before a measurement.

    The pages that are written to and released here are the next ones that the kernel hands out.

    Args:
        data_bytes: Bytes of the records that will be read. Three times as much is reclaimed, up to
            `MAX_BYTES`.
    """
    free = os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE
    size = min(3 * data_bytes, MAX_BYTES, free // 2)
    with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_POPULATE):
        pass
