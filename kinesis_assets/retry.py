"""Retries: how long to wait after a failure, and a bounded loop of attempts.

There is no library behind this: only the arithmetic is shared. Readers wait in coroutines, the sensor from
tick to tick, and a commit counts three kinds of failures; tenacity alone would add 12 ms to each import.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_POWER = 10

_T = TypeVar("_T")


def full_jitter(seconds: float) -> float:
    """Return a random wait of at most some seconds, so that concurrent attempts do not stay in step."""
    return random.uniform(0, seconds)  # noqa: S311


def no_jitter(seconds: float) -> float:
    """Return the seconds themselves."""
    return seconds


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait after consecutive failures: each failure doubles the wait. Can be pickled.

    Attributes:
        first: Seconds to wait after the first failure.
        longest: Maximum seconds to wait.
        jitter: Returns the wait for a number of seconds.
    """

    first: float
    longest: float
    jitter: Callable[[float], float] = no_jitter

    def wait(self, failures: int) -> float:
        """Return the seconds to wait after a number of consecutive failures, which is at least 1."""
        return self.jitter(min(self.longest, self.first * 2.0 ** min(failures - 1, _LONGEST_POWER)))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often to attempt something, at least once, and how long to wait between two attempts."""

    attempts: int
    backoff: Backoff


def retry(
    attempt: Callable[[], _T],
    *,
    on: type[Exception] | tuple[type[Exception], ...],
    policy: RetryPolicy,
    sleep: Callable[[float], object],
) -> _T:
    """Return the result of the first attempt that succeeds.

    Args:
        on: The errors after which another attempt may succeed. Any other error is raised at once.

    Raises what the last attempt raises.
    """
    for failures in range(1, policy.attempts):
        try:
            return attempt()
        except on:
            sleep(policy.backoff.wait(failures))
    return attempt()
