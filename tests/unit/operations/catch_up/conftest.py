"""A stream that is behind, and several benches in one test."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from kinesis_assets.table.raw_table import PositionedTable
from support.shard_ids import A, B

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.bench import Bench


@pytest.fixture
def behind(bench: Bench) -> Bench:
    """A stream of two shards of which a run has read record 1, and left 2 to 5 and the newest, 8 and 9."""
    bench.create(2)
    bench.put(1, shard_id=A)
    bench.run()
    bench.later(minutes=2)
    bench.put(2, 3, shard_id=A)
    bench.put(4, 5, shard_id=B)
    bench.later(minutes=2)
    bench.put(8, shard_id=A)
    bench.put(9, shard_id=B)
    return bench


@pytest.fixture
def make_bench(bench: Bench, tmp_path: Path) -> Callable[[], Bench]:
    """Makes benches with a stream and a table of their own."""

    def make() -> Bench:
        name = uuid4().hex[:12]
        assert bench.clock is not None
        bench.clock.seconds = int(bench.clock.seconds) + 2.0
        table = PositionedTable(str(tmp_path / name), bench.table.policy)
        return replace(bench, stream=f"stream-{name}", table=table, acknowledged=[])

    return make
