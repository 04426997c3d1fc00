"""Positions that are handed over in both directions stay the same, and no record is lost or read twice."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from support.aggregates import aggregate_of

pytestmark = pytest.mark.slow  # starts moto


class KclLike:
    """A consumer that resumes as the KCL does: at the record of its checkpoint, without what it has read.

    Attributes:
        processed: What it has processed, in no order.
    """

    def __init__(self, bench, leases, dice):
        self.bench, self.leases, self.dice = bench, leases, dice
        self.processed = []

    def read(self):
        """Process some records of each shard whose parents are read to their end, and store checkpoints."""
        stored = self.leases.items
        for shard in self.bench.client.list_shards():
            lease = stored.get(shard.shard_id)
            if lease is None or lease["checkpoint"] == "SHARD_END":
                continue
            parents = [stored[parent]["checkpoint"] for parent in shard.parents if parent in stored]
            if any(checkpoint != "SHARD_END" for checkpoint in parents):
                continue
            left = [each for each in self.records(shard.shard_id) if each[0] > self.place(lease)]
            count = self.dice.randint(0, len(left))
            self.processed += [item for _, item in left[:count]]
            if count == len(left) and shard.closed:
                self.leases.lease(shard.shard_id, "SHARD_END", leaseCounter=lease["leaseCounter"] + 1)
                for child in self.bench.children(shard.shard_id):
                    if child not in stored:
                        self.leases.lease(child, "TRIM_HORIZON")
            elif count:
                number, sub = left[count - 1][0]
                self.leases.lease(shard.shard_id, str(number), sub, leaseCounter=lease["leaseCounter"] + 1)

    def records(self, shard_id):
        """Return place and number of each user record of a shard."""
        found = []
        for shard, number, data in self.bench.acknowledged:
            if shard == shard_id:
                items = self.bench.contents[data]
                found += [((int(number), sub), item) for sub, item in enumerate(items)]
        return sorted(found)

    @staticmethod
    def place(lease):
        checkpoint = lease["checkpoint"]
        return (int(checkpoint), lease["checkpointSubSequenceNumber"]) if checkpoint.isdigit() else (-1, 0)


def put_some(bench, dice, next_item):
    """Put records and aggregates of new numbers into open shards; return the next number."""
    parents = {parent for shard in bench.client.list_shards() for parent in shard.parents}
    for shard_id in [each for each in bench.shard_ids if each not in parents]:
        for _ in range(dice.randint(0, 4)):
            items = list(range(next_item, next_item + dice.choice([1, 1, 2, 5])))
            data = aggregate_of(*items) if len(items) > 1 else str(items[0]).encode()
            bench.contents[data] = items
            bench.put(data, shard_id=shard_id)
            next_item += len(items)
    return next_item


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4))
def test_a_stream_that_changes_hands_at_random_is_read_exactly_once(handed, bench, leases, seed):
    dice = random.Random(seed)  # a test's
    bench.contents = {}
    for shard_id in bench.create(2):
        leases.lease(shard_id, "TRIM_HORIZON")
    kcl, tables = KclLike(bench, leases, dice), []
    table, item = bench.table, put_some(bench, dice, 0)
    for turn in range(3):
        kcl.read()
        if dice.random() < 0.7:
            bench.split(
                dice.choice([shard for shard in bench.client.list_shards() if not shard.closed]).shard_id
            )
        item = put_some(bench, dice, item)
        kcl.read()
        bench.table = type(table)(f"{table.uri}-{turn}", table.policy)
        tables.append(bench.table)
        handed.take()
        for _ in range(dice.randint(0, 2)):
            bench.run(max_records=dice.randint(1, 5))
            item = put_some(bench, dice, item)
        handed.pause()
        handed.hand()
    bench.table = type(table)(f"{table.uri}-last", table.policy)
    tables.append(bench.table)
    handed.take()
    for _ in range(8):
        bench.run()
    landed = []
    for bench.table in tables:
        landed += bench.items
    assert Counter(landed + kcl.processed) == Counter(range(item))


def test_the_positions_come_back_the_same(handed, bench):
    parent, other, _ = bench.create(3)
    bench.put(b"1", aggregate_of(2, 3, 4), shard_id=parent)
    bench.put(aggregate_of(5, 6), aggregate_of(7, 8, 9), shard_id=other)
    bench.split(parent)
    bench.run()
    bench.seek("TRIM_HORIZON", other)
    bench.run([other], max_records=4)
    handed.pause()
    handed.hand()
    before = {key: shard.position for key, shard in bench.positions.shards.items() if not shard.finished}
    bench.table = type(bench.table)(f"{bench.table.uri}-again", bench.table.policy)
    handed.take()
    shards = bench.positions.shards
    assert {key: shard.position for key, shard in shards.items() if not shard.finished} == before
    assert [key for key, shard in shards.items() if shard.finished] == [parent]
    assert shards[other].position.sub_sequence_number == 1
