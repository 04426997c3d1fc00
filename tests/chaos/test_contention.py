"""Several runs on one table over a slow store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.sections.fairness import commits_of_each
from benchmarks.servers.slow_bucket import slow_bucket

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.thorough
@pytest.mark.usefixtures("environment")
def test_none_of_five_runs_on_different_shards_starves_on_a_slow_store(
    record_property: Callable[[str, object], None],
) -> None:
    rounds: list[list[int]] = []
    with slow_bucket(0.02) as bucket:
        # Which run wins a commit is random: one round may be uneven, but starvation shows in each.
        while len(rounds) < 3 and not (rounds and min(rounds[-1]) >= 12 / 2):
            rounds.append(commits_of_each(f"{bucket}/{len(rounds)}", writers=5, commits=60))
    record_property("commits of each", rounds)
    assert sum(rounds[-1]) == 60
    assert min(rounds[-1]) >= 12 / 2, rounds
