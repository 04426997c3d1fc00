"""Eight processes commit at once: to one shard, to one shard each, and to both."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

import pytest

from chaos.faults.racers import RacedAttempt, initialize_racer, race
from support.attempts import (
    assert_rows_are_what_positions_say,
    current_positions,
    freeze_all,
    rows_by_shard,
    shards,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.table.raw_table import PositionedTable

pytestmark = pytest.mark.any_format

RACERS = 8
ROUNDS = 3
OWN = [f"shard-{number}" for number in range(RACERS)]


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    context = get_context("spawn")
    barrier = context.Barrier(RACERS)
    with ProcessPoolExecutor(RACERS, context, initializer=initialize_racer, initargs=(barrier,)) as pool:
        yield pool


def raced(pool: ProcessPoolExecutor, table: PositionedTable, *of_each: list[str]) -> list[list[RacedAttempt]]:
    """Yield the attempts of all racers, round by round."""
    freeze_all(table, shards("hot", *OWN))
    results = list(pool.map(race, [table.uri] * RACERS, of_each, [ROUNDS] * RACERS))
    return [[of_racer[number] for of_racer in results] for number in range(ROUNDS)]


def test_one_of_eight_processes_on_one_shard_wins_each_round(
    pool: ProcessPoolExecutor, table: PositionedTable
) -> None:
    for entrants in raced(pool, table, *[["hot"]] * RACERS):
        (winner,) = (entrant for entrant in entrants if not entrant.conflicts)
        for entrant in entrants:
            assert entrant is winner or str(winner.batch_id) in entrant.conflicts["hot"]
    assert rows_by_shard(table) == {"hot": list(range(1, 3 * ROUNDS + 1))}
    assert current_positions(table).generation == ROUNDS
    assert_rows_are_what_positions_say(table)


def test_eight_processes_on_different_shards_all_commit(
    pool: ProcessPoolExecutor, table: PositionedTable
) -> None:
    for entrants in raced(pool, table, *[[name] for name in OWN]):
        assert [entrant.conflicts for entrant in entrants] == [{}] * RACERS
    assert rows_by_shard(table) == {name: list(range(1, 3 * ROUNDS + 1)) for name in OWN}
    assert current_positions(table).generation == RACERS * ROUNDS
    assert_rows_are_what_positions_say(table)


def test_eight_processes_lose_only_the_shard_that_they_share(
    pool: ProcessPoolExecutor, table: PositionedTable
) -> None:
    for entrants in raced(pool, table, *[["hot", name] for name in OWN]):
        lost = [set(entrant.conflicts) for entrant in entrants]
        assert lost.count(set()) == 1
        assert lost.count({"hot"}) == RACERS - 1
    done = list(range(1, 3 * ROUNDS + 1))
    assert rows_by_shard(table) == {"hot": done} | dict.fromkeys(OWN, done)
    assert_rows_are_what_positions_say(table)
