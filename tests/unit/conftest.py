"""Unit tests start no JVM: they run on a machine without Java."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that would start a JVM fails."""
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
