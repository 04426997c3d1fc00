"""A stream's partitions in Dagster, no further back than they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.dagster.names import shard_partitions

if TYPE_CHECKING:
    from collections.abc import Iterable

    import dagster as dg

FIRST_PAGE = 1000
"""Partitions of the first request; each further one asks for twice as many."""


def newest_partitions(instance: dg.DagsterInstance, stream: str, wanted: Iterable[str]) -> list[str]:
    """The partitions from the oldest wanted one on or from one before it, in Dagster's order.

    Finished shards keep their partitions, so a stream that was often resharded has many that nobody reads.

    Args:
        instance: Where they are.
        stream: The stream's name.
        wanted: Shard ids; where one of them has no partition, all partitions are returned.
    """
    name = str(shard_partitions(stream).name)
    missing, found = set(wanted), list[str]()
    cursor, limit = None, FIRST_PAGE
    while True:
        page = instance.get_paginated_dynamic_partitions(name, limit, ascending=False, cursor=cursor)
        found += page.results
        missing.difference_update(page.results)
        if not missing or not page.has_more:
            return found[::-1]
        cursor, limit = page.cursor, 2 * limit
