"""A moment between the preparation of a commit and its request."""

from __future__ import annotations

import pytest
from pyiceberg.catalog.sql import SqlCatalog


@pytest.fixture
def before_commit(monkeypatch):
    """Call a function once, right before the next commit is sent to the catalog."""

    def before_commit(act):
        original, left = SqlCatalog.commit_table, [act]

        def commit_table(catalog, *arguments):
            if left:
                left.pop()()
            return original(catalog, *arguments)

        monkeypatch.setattr(SqlCatalog, "commit_table", commit_table)

    return before_commit
