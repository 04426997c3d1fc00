"""Positions of a stream for tests, without a table."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import msgspec

from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.positions import positions_file
from kinesis_assets.table.positions.positions import FORMAT, ShardPosition, StreamPositions
from support.attempts import BEGINNING, LISTED_AT, STREAM, listing, shards

HOUR = timedelta(hours=1)
GAP = Gap(
    after=Position.after("5", 3),
    since=LISTED_AT - 30 * HOUR,
    next_sequence_number="9" * 56,
    until=LISTED_AT - 24 * HOUR,
)


def shard_at(position=BEGINNING, parents=(), **rest):
    return ShardPosition(parents=parents, hash_range=("0", "9"), position=position, **rest)


def shard_after(number, **rest):
    """Return a shard that was read up to a sequence number."""
    return shard_at(Position.after(str(number)), **rest)


def positions_of(**shards):
    return StreamPositions(
        format=FORMAT, identity=STREAM, commit_id=7, previous=None, generation=0, batch_id=7, shards=shards
    )


def moved_to(shard, number, **rest):
    return msgspec.structs.replace(shard, position=Position.after(number), **rest)


def finished(shard):
    return msgspec.structs.replace(shard, finished=True)


def listing_of(*names, hours=24, at=LISTED_AT):
    """Return a listing of shards of a stream with a retention, at a time."""
    seen = listing(shards(*names))
    return replace(seen, summary=replace(seen.summary, retention_hours=hours, service_time=at))


def decoded(content):
    """Return the positions in a file that has no base."""
    return positions_file.read(content, {}.__getitem__).positions
