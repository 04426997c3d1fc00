"""The facts that a message for people has to name, however it is worded."""

from __future__ import annotations

import re


def assert_mentions(message: str, *facts: object) -> None:
    """Assert that a message contains each of some facts."""
    assert [fact for fact in map(str, facts) if fact not in message] == [], message


def numbers(message: str) -> list[int]:
    """Return all numbers of a message, sorted."""
    return sorted(int(number) for number in re.findall(r"\d+", message))
