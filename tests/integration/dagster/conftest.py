"""An instance for runs in other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    """The instance of DAGSTER_HOME, which other processes share."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "dagster.yaml").touch()
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    with dg.DagsterInstance.get() as instance:
        yield instance
