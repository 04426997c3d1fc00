"""What a Python worker of Spark keeps from task to task."""

from __future__ import annotations

import gc
from functools import cache


@cache
def settle() -> None:
    """After a worker's first task: take what is loaded by then out of the garbage collector's sight.

    Spark collects garbage after each task, and would walk through every module again: 40 ms of CPU a task.
    """
    gc.collect()
    gc.freeze()
