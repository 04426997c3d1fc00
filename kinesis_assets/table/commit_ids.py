"""Ids of commits and batches: 62-bit numbers that start with the time, so later ids are greater."""

from __future__ import annotations

import secrets
import time

_RANDOM_BITS = 20


def new_id() -> int:
    """Return a new id: 42 bits of milliseconds since the epoch, then 20 random bits."""
    return (time.time_ns() // 1_000_000) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)


def time_of_id(commit_id: int) -> float:
    """Return the time at which an id was generated, in seconds since the epoch."""
    return (commit_id >> _RANDOM_BITS) / 1000
