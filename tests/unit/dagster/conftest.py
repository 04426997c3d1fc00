"""A Dagster instance in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """An instance in memory: SQLite on a disk would take most of a test's time."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance
