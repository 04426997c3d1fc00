"""Findings about shards: listed, unread, finished, and their gaps."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.table.positions.amendments import ClearedGap
from support.mentions import assert_mentions

pytestmark = pytest.mark.slow

A, _, C, D = (f"shardId-{number:012d}" for number in range(4))

# Shards


def test_a_new_shard_is_reported_as_info(growing):
    growing.split(A)
    assert growing.problems() == []
    assert [finding.shard for finding in growing.findings() if finding.level == "info"][:2] == [C, D]


def test_an_unread_shard_that_is_no_longer_listed_is_a_problem(growing, faults):
    growing.split(A)
    faults.answer("ListShards", lambda _, response: response.but(Shards=response.members["Shards"][1:]))
    assert [(check, shard) for check, shard, _ in growing.problems()] == [("shards", A)]


def test_a_finished_shard_that_is_open_in_the_stream_is_a_problem(ingested):
    ingested.forge_shards(A, finished=True)
    ((check, shard_id, sentence),) = ingested.problems()
    assert (check, shard_id) == ("shards", A)
    assert f"kinesis-assets seek --stream {ingested.stream} --shard {A}" in sentence


def test_a_stale_shard_list_is_requested_again(growing, faults):
    growing.split(A)
    growing.run()
    faults.stale_list(times=2)
    assert growing.problems() == []


def test_a_shard_list_that_stays_stale_is_a_problem(growing, faults):
    growing.split(A)
    growing.run()
    faults.stale_list()
    ((check, shard_id, sentence),) = growing.problems()
    assert (check, shard_id) == ("shards", A)
    assert_mentions(sentence, C, D)


def test_records_that_may_have_expired_unread_are_a_problem(ingested):
    long_ago = ingested.at(A).last_arrival - timedelta(days=30)
    ingested.forge_shards(A, last_arrival=long_ago, tip_time=None)
    assert [(check, shard_id) for check, shard_id, _ in ingested.problems()] == [("shards", A)]


# Gaps


def test_a_gap_that_a_replay_filled_is_reported_as_filled(ingested):
    shard = ingested.at(A)
    gap = Gap(
        after=shard.position, since=shard.last_arrival, next_sequence_number=None, until=shard.last_arrival
    )
    ingested.forge_shards(A, gaps=(gap,))
    (open_gap,) = ingested.sentences("shards")
    assert str(gap) in open_gap
    ingested.amend(cleared={A: (ClearedGap.of(gap),)})
    (filled_gap,) = ingested.sentences("shards")
    assert_mentions(filled_gap, str(gap), "filled")
    assert filled_gap != open_gap
