"""Derived tables that are written without Spark."""

from __future__ import annotations

import pytest

from kinesis_assets.table.maintenance.steps import DEFAULT_LIMITS
from support.plain_derived import PlainDerived
from support.table_folder import folder_of

SMALL_FILES = DEFAULT_LIMITS.small_files


@pytest.fixture(scope="session")
def original(tmp_path_factory):
    return PlainDerived(tmp_path_factory.mktemp("original") / "derived")


@pytest.fixture(scope="session")
def original_busy(original, tmp_path_factory):
    busy = original.copied(tmp_path_factory.mktemp("busy") / "derived")
    for number in range(SMALL_FILES):
        busy.append((number, number, "a"))
    busy.append((100, 100, "b"))
    return busy


@pytest.fixture
def derived(original, tmp_path):
    """An empty derived table, which is partitioned."""
    return original.copied(tmp_path / "derived")


@pytest.fixture
def busy(derived, original_busy):
    """A derived table with enough small files in partition a, and one in partition b."""
    return original_busy.copied(folder_of(derived.table))


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
