"""Distribution of shards' ranges over the tasks of a Spark job."""

from __future__ import annotations

from heapq import heapreplace
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.reading.reading import BYTES_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinesis_assets.kinesis.reading.reading import ShardRange

_BYTES_OF_ANY = 200_000
"""What a range weighs though nothing may be in it: to ask costs the CPU of landing so many bytes."""


def packed(ranges: Sequence[ShardRange], tasks: int) -> list[list[ShardRange]]:
    """Ranges over tasks: the largest expected first, each to the task that has least so far.

    Those of which nothing is known count as the largest known. Within a task they keep their order.
    """
    expected = [_expected(range_) for range_ in ranges]
    largest = max((size for size in expected if size is not None), default=0.0)
    weights = [_BYTES_OF_ANY + (largest if size is None else size) for size in expected]
    loads = [(0.0, task) for task in range(tasks)]
    taken: list[list[int]] = [[] for _ in range(tasks)]
    for number in sorted(range(len(ranges)), key=lambda number: -weights[number]):
        load, task = loads[0]
        taken[task].append(number)
        heapreplace(loads, (load + weights[number], task))
    return [[ranges[number] for number in sorted(numbers)] for numbers in taken]


def _expected(range_: ShardRange) -> float | None:
    """Bytes that a range may take of those that are expected."""
    if range_.expected is None:
        return None
    bytes_, seconds = range_.bounds.max_bytes, range_.bounds.max_seconds
    most = [bytes_, None if seconds is None else seconds * BYTES_PER_SECOND]
    return min([range_.expected, *(each for each in most if each is not None)])
