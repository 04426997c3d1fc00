"""Fixtures with the public Kinesis emulators, and with their differences from the embedded stream."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, get_args

import pytest

from integration.emulators.allowed_differences import ALLOWED
from integration.emulators.compare import mismatches
from integration.emulators.emulators import Emulator, Service, install, running
from integration.emulators.recorded_api import RecordedApi
from kinesis_assets.emulator import LocalKinesis
from support.skipping import give_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from integration.emulators.compare import Mismatch
    from integration.emulators.recorded_api import Outcome

    Scenario = Callable[[RecordedApi], None]
    Record = Callable[[Service, Scenario], dict[str, Outcome]]

START = 1_800_000_000.25
"""The time of the first scenario. Its fraction shows which endpoints truncate times to seconds."""


@pytest.fixture(scope="session", params=get_args(Emulator))
def emulator(request: pytest.FixtureRequest) -> Iterator[Service]:
    """Each emulator in turn, for the whole session; tests use streams of their own."""
    if missing := [tool for tool in ("node", "npm") if shutil.which(tool) is None]:
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
    """An embedded stream that only scenarios use, and whose clock can be stopped."""
    del environment
    stopped: list[float | None] = [None]

    def now() -> float:
        return stopped[0] or time.time()

    def stop_clock(seconds: float | None) -> None:
        stopped[0] = seconds

    with LocalKinesis(now=now) as local:
        yield Service("embedded", local.endpoint_url, stop_clock)


@pytest.fixture(scope="session")
def record() -> Record:
    """Run a scenario at an endpoint, at most once in the session, and return the outcome of each call."""
    recorded: dict[tuple[str, str], dict[str, Outcome]] = {}
    clocks: dict[str, float] = {}

    def record(service: Service, scenario: Scenario) -> dict[str, Outcome]:
        name = scenario.__name__.replace("_", " ")
        if (service.name, name) not in recorded:
            api = RecordedApi(
                service,
                name.replace(" ", "-"),
                clocks.get(service.name, START),
                lambda step: service.name == "embedded" or ALLOWED[service.name].is_called(f"{name}/{step}"),
            )
            try:
                scenario(api)
            finally:
                clocks[service.name] = api.now
                api.close()
            recorded[service.name, name] = api.outcomes()
        return recorded[service.name, name]

    return record


@pytest.fixture(scope="session")
def mismatches_of(embedded: Service, record: Record) -> Callable[[Service, Scenario], list[Mismatch]]:
    """Return all differences between an emulator and the embedded stream in a scenario."""

    def compare(emulator: Service, scenario: Scenario) -> list[Mismatch]:
        name = scenario.__name__.replace("_", " ")
        return list(mismatches(name, record(embedded, scenario), record(emulator, scenario)))

    return compare
