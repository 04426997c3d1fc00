"""Seeks without Spark, over a stream whose clock the test moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.kinesis.reading import call_pacing, retry_policy
from kinesis_assets.table import commit_loop
from support.seek_bench import SeekBench

if TYPE_CHECKING:
    from kinesis_assets.table.table import PositionedTable


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a page's turn, nor long to try again."""
    monkeypatch.setattr(call_pacing, "SECONDS_BETWEEN_CALLS", 0.0)
    monkeypatch.setattr(retry_policy, "_LONGEST_WAIT", 0.01)
    monkeypatch.setattr(commit_loop, "_LONGEST_WAIT", 0.01)


@pytest.fixture
def bench(clocked: Any, stream: str, table: PositionedTable) -> SeekBench:
    """A stream to be created, and a table that is not there yet."""
    return SeekBench(clocked.clock, clocked.kinesis, clocked.settings, stream, table)
