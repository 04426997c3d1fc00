"""Findings about the chain of commits: each continues where the previous one ended."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.maintenance.pruning import CHAIN_KEPT, CHAIN_NEEDED
from kinesis_assets.table.positions.positions import Seek
from kinesis_assets.table.positions.positions_chain import positions_path
from support.mentions import assert_mentions
from support.shifted_clock import ShiftedClock

A = "shardId-000000000000"


def test_a_range_that_does_not_start_at_the_end_of_the_previous_one_is_reported(ingested):
    ingested.rewrite_range(A, start=Position.after("1"))
    ((check, shard, sentence),) = ingested.problems()
    assert (check, shard) == ("continuity", A)
    assert "AFTER_SEQUENCE_NUMBER:1, " in sentence


def test_a_position_that_differs_from_the_end_of_its_range_is_reported(ingested):
    ingested.rewrite_range(A, through=ingested.positions.added[A].start)
    ((check, shard, _),) = ingested.problems()
    assert (check, shard) == ("continuity", A)


def test_rows_outside_their_range_are_reported(ingested):
    ingested.rewrite_range(A, first_sequence_number=ingested.numbers[0])
    ((check, shard, sentence),) = ingested.problems()
    assert (check, shard) == ("continuity", A)
    assert f"{ingested.numbers[0]} to {ingested.numbers[-1]}" in sentence


def test_a_position_that_moved_without_rows_is_reported(ingested):
    forged = ingested.forge_shards(A, position=Position.after(ingested.numbers[-1] + "0"))
    ((check, shard, sentence),) = ingested.problems()
    assert (check, shard) == ("continuity", A)
    assert_mentions(sentence, f"generation {forged.generation}: ", forged.shards[A].position)


def test_a_position_that_moved_across_a_recorded_gap_is_not_a_problem(ingested):
    now = ingested.positions
    gap = Gap(after=now.shards[A].position, since=None, next_sequence_number=None, until=now.identity.created)
    ingested.forge_shards(A, position=Position.after(ingested.numbers[-1] + "0"), gaps=(gap,))
    assert ingested.problems() == []
    assert ingested.levels()["shards"] == {"info"}


def test_a_position_set_by_a_seek_is_not_a_problem(ingested):
    now, target = ingested.positions, Position.after(ingested.numbers[0])
    seek = Seek(at=now.identity.created, by="me", before=now.shards[A].position, after=target)
    ingested.forge_shards(A, position=target, seeks=(seek,))
    assert ingested.problems() == []


def test_a_missing_generation_is_reported(ingested):
    ingested.forge(generation=99)
    ((check, _, sentence),) = ingested.problems()
    assert check == "continuity"
    assert "generation 99 " in sentence


def test_a_missing_position_of_a_shard_is_reported(ingested):
    shards = {shard_id: shard for shard_id, shard in ingested.positions.shards.items() if shard_id != A}
    ingested.forge(shards=shards)
    assert [(check, shard) for check, shard, _ in ingested.problems()] == [("continuity", A)]


def delete_previous_positions(bench):
    Path(bench.table.uri, positions_path(bench.positions.previous)).unlink()


def test_a_lost_positions_file_is_reported(ingested):
    previous = ingested.positions.previous
    delete_previous_positions(ingested)
    ((check, _, sentence),) = ingested.problems()
    assert check == "continuity"
    assert str(previous) in sentence


def advance_machine_clock(bench, duration):
    clock = ShiftedClock()
    clock.advance(duration / timedelta(hours=1))
    bench.set_table_policy(clock=clock)


def test_a_pruned_chain_is_not_a_problem(ingested):
    delete_previous_positions(ingested)
    advance_machine_clock(ingested, CHAIN_KEPT)
    assert ingested.problems() == []


def test_a_chain_pruned_before_its_usual_age_is_reported_as_info(ingested):
    """Maintenance prunes earlier if there are very many commits."""
    delete_previous_positions(ingested)
    advance_machine_clock(ingested, CHAIN_NEEDED)
    assert ingested.levels()["continuity"] == {"info"}
