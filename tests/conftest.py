"""The shared fixtures of support/fixtures, and a check that Java is installed if a test needs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings

from kinesis_assets.errors import JavaUnavailable
from kinesis_assets.spark.java import require_java

pytest_plugins = [
    "support.fixtures.bench",
    "support.fixtures.command_line",
    "support.fixtures.credentials",
    "support.fixtures.dagster",
    "support.fixtures.spark",
    "support.fixtures.stream",
]

pytest.register_assert_rewrite("support")

UNIT = Path(__file__).parent / "unit"

hypothesis_settings.register_profile("untimed", hypothesis_settings(), deadline=None)
hypothesis_settings.load_profile("untimed")  # how long an example takes depends on the machine


def pytest_collection_finish(session: pytest.Session) -> None:
    """Exit with one line if Java is missing and any of the tests needs it."""
    if all(item.path.is_relative_to(UNIT) for item in session.items):
        return
    try:
        require_java()
    except JavaUnavailable as error:
        pytest.exit(str(error), returncode=1)
