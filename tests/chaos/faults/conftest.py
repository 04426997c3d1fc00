"""Fixtures of the crash matrix. `FAULTS=long` selects its long profile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from chaos.faults.bench import FaultBench
from support.timing import READING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import dagster as dg

    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.table.raw_table import PositionedTable


@pytest.fixture
def bench(
    stream: str,
    kinesis: Any,
    settings: ClientSettings,
    table: PositionedTable,
    tmp_path: Path,
    ephemeral_instance: dg.DagsterInstance,
) -> Iterator[FaultBench]:
    """A stream that the test creates, and a table that does not exist yet; no call waits."""
    settings = replace(settings, timing=READING)
    bench = FaultBench(
        kinesis, settings, stream, table, instance=ephemeral_instance, folder=tmp_path / "processes"
    )
    yield bench
    bench.end()
