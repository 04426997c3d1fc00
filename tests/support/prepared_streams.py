"""Streams and tables that several tests start from."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.bench import Bench


def create_and_split(bench: Bench) -> tuple[str, str, str]:
    """Create a shard with record 1, and split it later. Return its id and those of its children."""
    (parent,) = bench.create()
    bench.put(1)
    bench.later(seconds=5)
    low, high = bench.split(parent)
    return parent, low, high


def ingest_and_restore(bench: Bench) -> None:
    """Ingest record 1 and then 2, and restore the table to the version with record 1 only."""
    bench.create()
    bench.put(1)
    bench.run()
    version = bench.version
    bench.put(2)
    bench.run()
    bench.restore(version)
