"""An instance for runs in processes of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    """An instance that outlives a command."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "dagster.yaml").touch()
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    with dg.DagsterInstance.get() as instance:
        yield instance
