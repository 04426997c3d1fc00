"""When a signal of new records is done."""

from __future__ import annotations

import pytest

from kinesis_assets.dagster.sensor.due_shards import Signal, _is_done
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.positions.positions import ShardPosition


@pytest.mark.parametrize(
    ("position", "done"),
    [
        (Position.after("5"), True),
        (Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number="5"), False),
        (Position(PositionKind.AFTER_SEQUENCE_NUMBER, sequence_number="5", sub_sequence_number=1), False),
        (Position.after("4"), False),
        (Position(PositionKind.TRIM_HORIZON), False),
    ],
    ids=str,
)
def test_a_signal_is_done_once_the_position_has_passed_its_record(position, done):
    shard = ShardPosition(parents=(), hash_range=("0", "1"), position=position)
    assert _is_done(shard, Signal("5")) is done
