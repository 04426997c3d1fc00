"""Ids of commits and batches: 62-bit numbers that start with the time, so later ids are greater."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.clock import MACHINE_CLOCK

if TYPE_CHECKING:
    from kinesis_assets.kinesis.clock import Clock

_RANDOM_BITS = 20


def new_id(clock: Clock = MACHINE_CLOCK) -> int:
    """Return a new id: 42 bits of milliseconds since the epoch, then 20 random bits."""
    return int(clock.time() * 1000) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)


def time_of_id(commit_id: int) -> float:
    """Return the time at which an id was generated, in seconds since the epoch."""
    return (commit_id >> _RANDOM_BITS) / 1000
