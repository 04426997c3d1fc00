"""Runs without waits."""

from __future__ import annotations

import pytest

from kinesis_assets.kinesis.reading import call_pacing, retry_policy


@pytest.fixture
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a page's turn, nor long to try again."""
    monkeypatch.setattr(call_pacing, "SECONDS_BETWEEN_CALLS", 0.0)
    monkeypatch.setattr(retry_policy, "_LONGEST_WAIT", 0.01)
