"""What a test does on a machine that lacks a tool."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def give_up(reason: str) -> NoReturn:
    """Skip the test. In CI it fails, because a skipped test would count as passed."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
