"""Numbers that name attempts and positions files: 62 bits, time first, so they grow."""

from __future__ import annotations

import secrets
import time

_RANDOM_BITS = 20


def draw_token() -> int:
    """A new token: 42 bits of milliseconds since the epoch, then 20 random bits."""
    return (time.time_ns() // 1_000_000) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)


def drawn_at(token: int) -> float:
    """When a token was drawn, seconds since the epoch."""
    return (token >> _RANDOM_BITS) / 1000
