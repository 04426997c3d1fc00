"""Distribution of shards' ranges over the tasks of a Spark job."""

from __future__ import annotations

from heapq import heapreplace
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.read_timing import BYTES_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinesis_assets.kinesis.reading.range import ShardRange

_BYTES_PER_RANGE = 200_000
"""Weight of a range in addition to its bytes: the CPU of its calls equals that of landing this many bytes."""


def packed(ranges: Sequence[ShardRange], tasks: int) -> list[list[ShardRange]]:
    """Distribute ranges over tasks: the largest first, each to the task with the smallest load so far.

    Ranges of unknown size count as the largest known one. Within a task, the ranges keep their order.
    """
    expected = [_expected(range_) for range_ in ranges]
    largest = max((size for size in expected if size is not None), default=0.0)
    weights = [_BYTES_PER_RANGE + (largest if size is None else size) for size in expected]
    loads = [(0.0, task) for task in range(tasks)]
    assigned: list[list[int]] = [[] for _ in range(tasks)]
    for number in sorted(range(len(ranges)), key=lambda number: -weights[number]):
        load, task = loads[0]
        assigned[task].append(number)
        heapreplace(loads, (load + weights[number], task))
    return [[ranges[number] for number in sorted(numbers)] for numbers in assigned]


def _expected(range_: ShardRange) -> float | None:
    """Return the bytes that a range is expected to read, within its bounds; None if that is not known."""
    if range_.expected_bytes is None:
        return None
    bytes_, seconds = range_.bounds.max_bytes, range_.bounds.max_seconds
    limits = [bytes_, None if seconds is None else seconds * BYTES_PER_SECOND]
    return min([range_.expected_bytes, *(limit for limit in limits if limit is not None)])
