"""The racing processes of test_fencing.py. They do not import pytest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.harness.waiting import SECONDS
from support.attempts import Attempt, current_positions
from support.formats import raw_table

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier

_barrier: Barrier | None = None


@dataclass(frozen=True)
class RacedAttempt:
    """One attempt: its batch id, and the error of each shard that it lost."""

    batch_id: int
    conflicts: dict[str, str]


def initialize_racer(barrier: Barrier) -> None:
    """Initialize a process, which then waits at the barrier before each race."""
    global _barrier  # noqa: PLW0603  # the one thing that a process pool hands to its processes at their start
    _barrier = barrier


def race(uri: str, shard_ids: list[str], rounds: int) -> list[RacedAttempt]:
    """Commit three records of each shard per round. All processes start from the same positions."""
    assert _barrier is not None
    table = raw_table(uri)
    entrants = []
    for _ in range(rounds):
        _barrier.wait(timeout=SECONDS)
        attempt = Attempt(table, current_positions(table), dict.fromkeys(shard_ids, 3))
        _barrier.wait(timeout=SECONDS)
        result = attempt.commit()
        entrants.append(
            RacedAttempt(
                attempt.batch_id,
                {
                    shard_id: f"{type(error).__name__}: {error}"
                    for shard_id, error in result.conflicts.items()
                },
            )
        )
        _barrier.wait(timeout=SECONDS)
    return entrants
