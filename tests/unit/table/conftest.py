"""Positions that tests start from, a limit of tries, and DuckDB."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import duckdb_extension_delta
import pytest

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
    (extension,) = Path(duckdb_extension_delta.__path__[0]).glob("extensions/*/delta.duckdb_extension")
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.load_extension(str(extension))
        connection.execute("SET TimeZone = 'UTC'")
        yield connection
