"""Memory that is at hand, not with the host of a virtual machine.

Such a host may take back what its guest has free (a balloon that reports free pages), and gives it again when
it is written to. The guest counts that as system time of whoever writes: for a landing as much as all else
that the kernel does, where others have had the memory meanwhile.
"""

from __future__ import annotations

import mmap
import os

_BYTES = 3 << 29  # 1.5 GiB, thrice what a landing of the suite's largest stream writes


def at_hand() -> None:
    """Have free memory back from the host: what is written to, and let go, is the next to be given out."""
    free = os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE
    with mmap.mmap(-1, min(_BYTES, free // 2), mmap.MAP_PRIVATE | mmap.MAP_POPULATE):
        pass
