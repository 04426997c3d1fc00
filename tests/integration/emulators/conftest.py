"""Fixtures that give a test the public Kinesis emulators, and what they say beside the embedded stream."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING, get_args

import pytest

from integration.emulators.compare import contrasts
from integration.emulators.differences import is_asked
from integration.emulators.emulators import Emulator, Service, install, running
from integration.emulators.talk import Talk
from kinesis_assets.emulator import LocalKinesis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from integration.emulators.compare import Contrast
    from integration.emulators.talk import Said

    Conversation = Callable[[Talk], None]
    Hear = Callable[[Service, Conversation], dict[str, Said]]

BEGINNING = 1_800_000_000.25
"""When the first conversation is held. The fraction tells apart who cuts it off."""


@pytest.fixture(scope="session", params=get_args(Emulator))
def emulator(request: pytest.FixtureRequest) -> Iterator[Service]:
    """Each emulator in turn, shared by the session: tests name their own streams."""
    if missing := [tool for tool in ("node", "npm") if shutil.which(tool) is None]:
        # A machine that checks the project must not pass by skipping.
        give_up = pytest.fail if os.environ.get("CI") else pytest.skip
        give_up(f"the emulators need {' and '.join(missing)} on the PATH")
    install()
    with running(request.param) as service:
        yield service


@pytest.fixture
def emulator_endpoint(emulator: Service) -> str:
    """The endpoint URL of each emulator in turn."""
    return emulator.endpoint


@pytest.fixture(scope="session")
def embedded(environment: None) -> Iterator[Service]:
    """An embedded stream that nothing but conversations uses, and whose clock can be stopped."""
    del environment
    stopped: list[float | None] = [None]

    def now() -> float:
        return stopped[0] or time.time()

    def stop_clock(seconds: float | None) -> None:
        stopped[0] = seconds

    with LocalKinesis(now=now) as local:
        yield Service("embedded", local.endpoint_url, stop_clock)


@pytest.fixture(scope="session")
def hear() -> Hear:
    """What an endpoint answers in a conversation; each is held once in the session."""
    heard: dict[tuple[str, str], dict[str, Said]] = {}
    clocks: dict[str, float] = {}

    def hold(service: Service, conversation: Conversation) -> dict[str, Said]:
        name = conversation.__name__.replace("_", " ")
        if (service.name, name) not in heard:
            talk = Talk(
                service,
                name.replace(" ", "-"),
                clocks.get(service.name, BEGINNING),
                lambda step: service.name == "embedded" or is_asked(service.name, f"{name}/{step}"),
            )
            try:
                conversation(talk)
            finally:
                clocks[service.name] = talk.now
                talk.close()
            heard[service.name, name] = talk.said()
        return heard[service.name, name]

    return hold


@pytest.fixture(scope="session")
def contrasts_of(embedded: Service, hear: Hear) -> Callable[[Service, Conversation], list[Contrast]]:
    """Everything that an emulator answers otherwise than the embedded stream in a conversation."""

    def compare(emulator: Service, conversation: Conversation) -> list[Contrast]:
        name = conversation.__name__.replace("_", " ")
        return list(contrasts(name, hear(embedded, conversation), hear(emulator, conversation)))

    return compare
