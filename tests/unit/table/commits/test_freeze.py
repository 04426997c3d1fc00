"""Freezing the start of a stream."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from kinesis_assets.errors import CommitFailed, StreamRecreated, TableRewritten
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.commits.commit import freeze
from support.attempts import (
    BEGINNING,
    STREAM,
    Attempt,
    current_positions,
    freeze_all,
    listing,
    rows_by_shard,
    shards,
)
from support.commit_faults import lost_response, never_landed
from support.formats import restore

LATER_STREAM = msgspec.structs.replace(STREAM, created=datetime(2026, 6, 1, tzinfo=UTC))


def test_the_first_freeze_creates_the_table_and_positions_without_rows(table):
    positions = freeze_all(table, shards("a", "b"))
    assert positions == current_positions(table)
    assert {shard.position for shard in positions.shards.values()} == {BEGINNING}
    assert (positions.generation, positions.previous) == (0, None)
    assert rows_by_shard(table) == {}


def test_a_second_freeze_with_other_arguments_changes_nothing(table):
    first = freeze_all(table, shards("a"))
    version = table.snapshot().version
    again = freeze_all(table, shards("a", "b"), Position.parse("AT_TIMESTAMP:2026-01-31T12:00:00Z"))
    assert again == first
    assert table.snapshot().version == version


def test_a_freeze_whose_response_is_lost_succeeds(table, at_commit):
    at_commit(lost_response)
    assert freeze_all(table, shards("a")) == current_positions(table)
    assert table.snapshot().version == 1


@pytest.mark.usefixtures("three_tries")
def test_a_freeze_fails_after_a_bounded_number_of_tries(table, at_commit):
    at_commit(never_landed, times=99)
    with pytest.raises(CommitFailed, match=r"\b3 times\b.*connection refused"):
        freeze_all(table, shards("a"))


def test_a_recreated_stream_is_refused_with_both_creation_times(table, frozen):
    with pytest.raises(StreamRecreated, match=r"2026-01-01T00:00:00Z.*2026-06-01T00:00:00Z"):
        freeze_all(table, shards("a"), identity=LATER_STREAM)
    assert current_positions(table) == frozen


def test_the_positions_of_a_recreated_stream_are_not_replaced_in_a_restored_table(table, frozen):
    before = Attempt(table, frozen, {"a": 1}).commit().version
    Attempt(table, current_positions(table), {"b": 1}).commit()
    restore(table, before)
    version = table.snapshot().version
    with pytest.raises(TableRewritten):
        freeze(table, listing(shards("a"), LATER_STREAM), {"a": BEGINNING}, replacing_older=True)
    assert table.snapshot().version == version
