"""Positions that tests start from, a limit of tries, and DuckDB."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support import readers
from support.attempts import freeze_all, shards


@pytest.fixture
def frozen(table):
    """The positions of shards a, b and c before anything was read."""
    return freeze_all(table, shards("a", "b", "c"))


@pytest.fixture
def three_tries(table):
    """Limit commits to three tries."""
    table.policy = replace(table.policy, commits=replace(table.policy.commits, tries=3))


@pytest.fixture(scope="session")
def duck():
    """DuckDB with its Delta extension."""
    return readers.duck()
