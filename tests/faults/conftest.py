"""The crash matrix and what belongs to it. `FAULTS=long` for its long profile."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

HERE = Path(__file__).parent
# The fault points; a pipeline as in the contract's tests; attempts as in the table's.
sys.path += [str(HERE / "site"), str(HERE.parent / "contract"), str(HERE.parent / "table")]

from bench import Bench  # noqa: E402  # isort: skip

from kinesis_assets.kinesis.reading import call_pacing  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.kinesis.settings import ClientSettings


@pytest.fixture
def bench(
    stream: str, kinesis: Any, settings: ClientSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    """A stream to be created, and a table that is not there yet; no call waits for its turn."""
    monkeypatch.setattr(call_pacing, "SECONDS_BETWEEN_CALLS", 0.0)
    bench = Bench(stream, kinesis, settings, str(tmp_path / "table"), folder=tmp_path / "processes")
    yield bench
    bench.end()
