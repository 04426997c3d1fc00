"""Memory that is at hand, not with the host of a virtual machine.

Such a host may take back what its guest has free (a balloon that reports free pages), and gives it again when
it is written to. The guest counts that as system time of whoever writes: for a landing as much as all else
that the kernel does, where others have had the memory meanwhile.
"""

from __future__ import annotations

import mmap
import os

MOST_BYTES = 3 << 29
"""1.5 GiB, thrice what a landing of the suite's largest stream writes."""


def at_hand(data_bytes: int) -> None:
    """Have free memory back from the host: what is written to, and let go, is the next to be given out.

    Args:
        data_bytes: Of the records that are to be read. Thrice that is had back, as far as `MOST_BYTES`.
    """
    free = os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE
    size = min(3 * data_bytes, MOST_BYTES, free // 2)
    with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_POPULATE):
        pass
