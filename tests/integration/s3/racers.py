"""The racing processes of test_races.py, each with a clock of its own. They do not import pytest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.derive.cursor import Cursor
from kinesis_assets.errors import CursorConflict, PositionConflict
from kinesis_assets.table.policy import TablePolicy
from kinesis_assets.table.raw_table import PositionedTable
from support.attempts import Attempt, current_positions, freeze_all, shards, wait_for_others
from support.plain_derived import PlainDerived
from support.shifted_clock import ShiftedClock

if TYPE_CHECKING:
    from kinesis_assets.table.positions.positions import StreamPositions


def _policy(offset: float) -> TablePolicy:
    clock = ShiftedClock()
    clock.offset = offset
    return TablePolicy(clock=clock)


def race_to_create(uri: str, offset: float) -> StreamPositions:
    """Create a table and freeze its stream."""
    table = PositionedTable(uri, _policy(offset))
    wait_for_others()
    return freeze_all(table, shards("a"))


def race_to_commit(uri: str, shard_id: str, offset: float, rounds: int) -> list[bool]:
    """Commit to a shard in each round from its position, and return which commits won."""
    table, won = PositionedTable(uri, _policy(offset)), []
    for _ in range(rounds):
        wait_for_others()
        attempt = Attempt(table, current_positions(table), {shard_id: 3})
        wait_for_others()
        conflicts = attempt.commit().conflicts
        assert all(isinstance(error, PositionConflict) for error in conflicts.values())
        won.append(not conflicts)
    return won


def race_to_consume(uri: str, replacing: bool, offset: float, rounds: int) -> list[bool]:
    """Commit the next row of the source in each round, and return which commits won."""
    derived, won = PlainDerived(uri, partitioned=False, policy=_policy(offset)), []
    for number in range(1, rounds + 1):
        wait_for_others()
        cursor = Cursor(source="source", commit=number)
        row = (0, number, None)
        commit = derived.planned([row], replacing=replacing, cursor=cursor)
        wait_for_others()
        try:
            commit()
        except CursorConflict:
            won.append(False)
        else:
            won.append(True)
    return won
