"""Open shards that are recorded as finished: a seek reopens them at their position."""

from __future__ import annotations

import re
import shlex

import pytest

from kinesis_assets.cli.command_line import commands
from kinesis_assets.errors import DataLost, SeekRefused, ShardListStale
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.operations.seek.plan import Direction

pytestmark = pytest.mark.slow


def finish_by_mistake(bench, *shard_ids):
    """Record shards as read to their end, as a version that trusts a single response might."""
    bench.forge_shards(*shard_ids, finished=True)


def command_of(error):
    (command,) = re.findall(r"`kinesis-assets (seek [^`]+)`", str(error))
    return shlex.split(command)


@pytest.mark.parametrize("start", ["TRIM_HORIZON", "LATEST"])
@pytest.mark.parametrize("records", [0, 3])
def test_the_command_in_the_error_reopens_the_shard_without_loss(bench, start, records):
    (shard_id,) = bench.create()
    bench.plan(start=start)
    if records:
        bench.put(*range(records))
        bench.run()
    before = bench.at(shard_id)
    finish_by_mistake(bench, shard_id)
    bench.put(10)
    with pytest.raises(ShardListStale) as caught:
        bench.run([shard_id])
    commands(
        [*command_of(caught.value), "--endpoint-url", bench.settings.endpoint_url], standalone_mode=False
    )
    after = bench.at(shard_id)
    assert (after.finished, after.position, len(after.seeks)) == (False, before.position, 1)
    assert bench.run().errors == {}
    assert bench.items == [*range(records), 10]


def test_reopening_is_reported_and_deletes_no_rows(bench):
    (shard_id,) = bench.create()
    (number,) = bench.put(1)
    bench.run()
    finish_by_mistake(bench, shard_id)
    move = bench.seek(f"AFTER_SEQUENCE_NUMBER:{number}", shard_id).moves[shard_id]
    assert (move.direction, move.rows_removed, move.gap) == (Direction.REOPEN, 0, None)
    assert bench.items == [1]


def test_two_shards_can_be_reopened_one_after_the_other(bench):
    first, second = bench.create(2)
    numbers = {
        shard_id: bench.put(shard_id[-1].encode(), shard_id=shard_id)[0] for shard_id in (first, second)
    }
    bench.run()
    finish_by_mistake(bench, first, second)
    for shard_id in (first, second):
        bench.seek(f"AFTER_SEQUENCE_NUMBER:{numbers[shard_id]}", shard_id)
    assert bench.positions.finished == set()
    assert bench.run().errors == {}


def test_a_move_forward_reopens_an_open_shard_and_records_the_gap(bench):
    (shard_id,) = bench.create()
    bench.put(1)
    bench.run()
    finish_by_mistake(bench, shard_id)
    bench.later(seconds=5)
    _, last = bench.put(2, 3)
    bench.seek(f"AT_SEQUENCE_NUMBER:{last}", shard_id)
    after = bench.at(shard_id)
    assert (after.finished, len(after.gaps)) == (False, 1)
    assert after.position == Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=last)
    bench.run()
    assert bench.items == [1, 3]


def test_a_move_back_reopens_an_open_shard(bench):
    (shard_id,) = bench.create()
    first, _ = bench.put(1, 2)
    bench.run()
    finish_by_mistake(bench, shard_id)
    assert bench.seek(f"AFTER_SEQUENCE_NUMBER:{first}", shard_id).moves[shard_id].rows_removed == 1
    bench.run()
    assert bench.items == [1, 2]


def test_loss_since_the_mistaken_end_is_reported_after_reopening(bench):
    (shard_id,) = bench.create()
    (number,) = bench.put(1)
    bench.run()
    finish_by_mistake(bench, shard_id)
    bench.put(2)
    bench.later(hours=30)
    bench.put(3)
    bench.seek(f"AFTER_SEQUENCE_NUMBER:{number}", shard_id)
    assert isinstance(bench.run().errors[shard_id], DataLost)


def test_a_closed_shard_is_not_reopened(bench):
    (parent,) = bench.create()
    (number,) = bench.put(1)
    bench.split(parent)
    bench.run()
    result = bench.seek(f"AFTER_SEQUENCE_NUMBER:{number}", parent)
    assert (result.moves[parent].direction, result.applied) == (Direction.STAYS, False)
    bench.later(seconds=5)
    with pytest.raises(SeekRefused, match="finished"):
        bench.seek("LATEST", parent)
    assert bench.at(parent).finished


def test_a_stale_list_reopens_no_shard(bench, faults):
    (parent,) = bench.create()
    (number,) = bench.put(1)
    bench.run()
    bench.split(parent)
    bench.run()
    before = bench.version
    faults.stale_list()
    with pytest.raises(ShardListStale, match=parent):
        bench.seek(f"AFTER_SEQUENCE_NUMBER:{number}", parent)
    faults.clear()
    assert (bench.version, bench.at(parent).finished) == (before, True)


@pytest.mark.parametrize("hours", [1, 8760])
def test_a_seek_does_not_store_one_incorrect_retention(bench, faults, hours):
    first, second = bench.create(2)
    bench.put(1, shard_id=first)
    bench.run()
    bench.later(seconds=5)
    faults.answer(
        "DescribeStreamSummary",
        lambda _, response: response.but(
            StreamDescriptionSummary=response.members["StreamDescriptionSummary"]
            | {"RetentionPeriodHours": hours}
        ),
        times=1,
    )
    bench.seek("LATEST", first)
    faults.clear()
    assert [bench.at(shard_id).retention_hours for shard_id in (first, second)] == [24, 24]
