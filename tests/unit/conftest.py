"""Unit tests start no JVM: they run on a machine without Java. They share the SDK's clients."""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


@pytest.fixture(scope="session", autouse=True)
def migrations() -> Iterator[None]:
    """Load the migrations of Dagster's databases once, instead of for each instance that a test creates."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415  # pytest-xdist's own process needs none

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", staticmethod(cache(ScriptDirectory.from_config)))
        yield


@pytest.fixture(scope="session", autouse=True)
def config_schemas() -> Iterator[None]:
    """Infer the schema of each class of resources once, instead of for each resource that a test creates."""
    from dagster._config.pythonic_config import resource  # noqa: PLC0415  # likewise

    infer = resource.infer_schema_from_config_class
    schema_of = cache(lambda kind, omitted: infer(kind, fields_to_omit=set(omitted)))

    def inferred(kind: type, *, fields_to_omit: Collection[str], default: Any = None) -> Any:
        if default is not None:
            return infer(kind, fields_to_omit=set(fields_to_omit), default=default)
        return schema_of(kind, frozenset(fields_to_omit))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resource, "infer_schema_from_config_class", inferred)
        yield


@pytest.fixture(scope="session", autouse=True)
def sdk_handlers() -> Iterator[None]:
    """Register the SDK's own handlers of events once, instead of for each of its sessions."""
    from botocore.session import Session  # noqa: PLC0415  # likewise

    events = Session().get_component("event_emitter")

    def registered(session: Any, _: object) -> None:
        session._events = copy(events)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "_register_builtin_handlers", registered)
        yield


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that would start a JVM fails."""
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")


@pytest.fixture(autouse=True)
def sdk_clients(shared_sdk_clients: None) -> None:
    """Share the SDK's clients. Tests of the SDK's client define this fixture again, and share none."""
