"""A table in each format, frozen positions, and tries to commit that a test replaces."""

from __future__ import annotations

import pytest

from kinesis_assets.table.snapshot import TableSnapshot
from support.formats import FORMATS, table_of
from support.timing import WRITING


@pytest.fixture(params=FORMATS)
def table(request, tmp_path):
    """The test's table, which the first freeze creates. A failed commit is retried at once."""
    return table_of(request.param, str(tmp_path / "table"), WRITING)


@pytest.fixture
def at_commit(monkeypatch):
    """Replace the next tries: `at_commit(replacement)` gets the real function and its arguments."""
    original = TableSnapshot.commit

    def real(snapshot, files, positions):
        original(snapshot, files, identity=positions.identity, positions=positions)

    def at_commit(replacement, times=1):
        left = [times]

        def commit(snapshot, files, *, identity, positions, retired=()):
            assert not retired
            assert identity == positions.identity
            if not left[0]:
                return real(snapshot, files, positions)
            left[0] -= 1
            return replacement(real, snapshot, files, positions)

        monkeypatch.setattr(TableSnapshot, "commit", commit)

    return at_commit
