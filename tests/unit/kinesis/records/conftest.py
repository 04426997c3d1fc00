"""Pages that are read with a shared SDK client."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def sdk_clients(shared_sdk_clients: None) -> None:
    """No test here is about the SDK's client."""
