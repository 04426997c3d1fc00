"""Unit tests start no JVM: they run on a machine without Java. They share the SDK's clients."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest
from alembic.script import ScriptDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def migrations() -> Iterator[None]:
    """Load the migrations of Dagster's databases once, instead of for each instance that a test creates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", staticmethod(cache(ScriptDirectory.from_config)))
        yield


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that would start a JVM fails."""
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")


@pytest.fixture(autouse=True)
def sdk_clients(shared_sdk_clients: None) -> None:
    """Share the SDK's clients. Tests of the SDK's client define this fixture again, and share none."""
