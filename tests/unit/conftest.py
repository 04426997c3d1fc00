"""Unit tests start no JVM: they run on a machine without Java."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A test that would start a JVM fails."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
