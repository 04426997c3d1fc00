"""Counts the Spark jobs of a test."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark import SparkContext


@contextmanager
def counted_jobs(context: SparkContext, group: str) -> Iterator[Callable[[], int]]:
    """Start the thread's jobs in a group of their own, and yield a function that returns their number."""
    context.setJobGroup(group, group)
    try:
        yield lambda: len(context.statusTracker().getJobIdsForGroup(group))
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # other tests share the session and the thread
