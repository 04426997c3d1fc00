"""A Dagster instance in memory."""

from __future__ import annotations

import pytest

from support.in_memory import daemon, instance

__all__ = ["daemon", "instance"]


@pytest.fixture(autouse=True)
def schemas(library_schemas: None) -> None:
    """Describe the components of all installed packages once."""
