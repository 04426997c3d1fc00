"""Memory that is at hand, not with the host of a virtual machine.

Such a host may take back what its guest has free (a balloon that reports free pages), and gives it again when
it is written to. The guest counts that as system time of whoever writes: for a landing as much as all else
that the kernel does, where others have had the memory meanwhile.
"""

from __future__ import annotations

import mmap
import os


def at_hand(data_bytes: int) -> None:
    """Have free memory back from the host: what is written to, and let go, is the next to be given out.

    Args:
        data_bytes: Of the records that are to be read. As much again is for what a reader keeps meanwhile:
            the files have half of it.
    """
    free = os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE
    with mmap.mmap(-1, min(data_bytes * 3 // 2, free // 2), mmap.MAP_PRIVATE | mmap.MAP_POPULATE):
        pass
