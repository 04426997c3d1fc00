"""Parses the durations in Delta table properties, such as `interval 30 days`."""

from __future__ import annotations

import re
from datetime import timedelta

_INTERVAL = re.compile(
    r"\s*(?:interval\s+)?(\d{1,9})\s+(second|minute|hour|day|week)s?\s*", re.IGNORECASE | re.ASCII
)


def parse_interval(text: str) -> timedelta | None:
    """Parse the value of a property. Returns None if it is not an interval."""
    found = _INTERVAL.fullmatch(text)
    return None if found is None else timedelta(**{f"{found[2].lower()}s": int(found[1])})
