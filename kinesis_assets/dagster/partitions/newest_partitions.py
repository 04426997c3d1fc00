"""Read a stream's newest partitions, without those that are no longer needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import dagster as dg

    from kinesis_assets.dagster.stream_names import StreamNames

FIRST_PAGE = 1000
"""Size of the first page. Each further page is twice as large."""


def newest_partitions(instance: dg.DagsterInstance, names: StreamNames, wanted: Iterable[str]) -> list[str]:
    """Return the partitions from the oldest wanted one or from an earlier one, in Dagster's order.

    Finished shards keep their partitions, so a stream that is often resharded has many that no run reads.

    Args:
        instance: The instance that stores the partitions.
        names: The names of the stream's definitions.
        wanted: Shard ids. If one of them has no partition, all partitions are returned.
    """
    name = names.partitions_name
    missing, found = set(wanted), list[str]()
    cursor, limit = None, FIRST_PAGE
    while True:
        page = instance.get_paginated_dynamic_partitions(name, limit, ascending=False, cursor=cursor)
        found += page.results
        missing.difference_update(page.results)
        if not missing or not page.has_more:
            return found[::-1]
        cursor, limit = page.cursor, 2 * limit
