"""Derived tables that are written without Spark."""

from __future__ import annotations

import pytest

from kinesis_assets.table.maintenance.limits import DEFAULT_LIMITS
from support.plain_derived import PlainDerived

SMALL_FILES = DEFAULT_LIMITS.small_files


@pytest.fixture
def derived(tmp_path):
    """An empty derived table, which is partitioned."""
    return PlainDerived(tmp_path / "derived")


@pytest.fixture
def busy(derived):
    """A derived table with enough small files in partition a, and one in partition b."""
    for number in range(SMALL_FILES):
        derived.append((number, number, "a"))
    derived.append((100, 100, "b"))
    return derived


@pytest.fixture
def below(derived, tmp_path):
    """An empty table that is derived from the derived table."""
    return PlainDerived(tmp_path / "below", derived.id, partitioned=False)


@pytest.fixture
def when(monkeypatch):
    """Call a function once, before or after a method."""

    def when(owner, name, act, *, after=False):
        real = getattr(owner, name)

        def call(*arguments, **named):
            monkeypatch.setattr(owner, name, real)
            if after:
                result = real(*arguments, **named)
                act()
                return result
            act()
            return real(*arguments, **named)

        monkeypatch.setattr(owner, name, call)

    return when
