"""A Dagster instance in memory."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from dagster.components.core import package_entry, snapshot
from dagster_shared.serdes.objects import package_entry as package_json

from support.in_memory import daemon, instance

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["daemon", "instance"]


@pytest.fixture(scope="session", autouse=True)
def library_schemas() -> Iterator[None]:
    """Describe the components of all installed packages once, instead of each time a project is loaded."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in [
            (package_entry, "discover_entry_point_package_objects"),
            (snapshot, "get_package_entry_snap"),
        ]:
            patch.setattr(module, name, cache(getattr(module, name)))
        describe = package_json.json_for_component_type
        found: dict[Any, Any] = {}
        patch.setattr(
            package_json,
            "json_for_component_type",
            lambda key, *facts: found[key] if key in found else found.setdefault(key, describe(key, *facts)),
        )
        yield
