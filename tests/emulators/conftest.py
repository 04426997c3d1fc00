"""Fixtures that give a test the public Kinesis emulators."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, get_args

import pytest
from emulators import Emulator, install, running

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", params=get_args(Emulator))
def emulator_endpoint(request: pytest.FixtureRequest) -> Iterator[str]:
    """The endpoint URL of each emulator in turn, shared by the session: tests name their own streams."""
    if missing := [tool for tool in ("node", "npm") if shutil.which(tool) is None]:
        # A machine that checks the project must not pass by skipping.
        give_up = pytest.fail if os.environ.get("CI") else pytest.skip
        give_up(f"the emulators need {' and '.join(missing)} on the PATH")
    install()
    with running(request.param) as endpoint:
        yield endpoint
