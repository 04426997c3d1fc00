"""The crash matrix and what belongs to it. `FAULTS=long` for its long profile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from chaos.faults.bench import FaultBench
from support.timing import READING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.table.table import PositionedTable


@pytest.fixture
def bench(
    stream: str,
    kinesis: Any,
    settings: ClientSettings,
    table: PositionedTable,
    tmp_path: Path,
) -> Iterator[FaultBench]:
    """A stream to be created, and a table that is not there yet; no call waits for its turn."""
    settings = replace(settings, timing=READING)
    bench = FaultBench(kinesis, settings, stream, table, folder=tmp_path / "processes")
    yield bench
    bench.end()
