"""A stream that is deleted and created again under its name: another stream, with the same table."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import DataLost, StreamRecreated
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.positions import Predecessor

BEGINNING = Position(PositionKind.TRIM_HORIZON)
RESTART = {"on_recreated": "restart"}


@pytest.fixture
def recreate(bench):
    """Puts another stream in the place of the test's."""

    def recreate(shards=1):
        bench.delete()
        bench.later(hours=1)
        return bench.create(shards)

    return recreate


def identity(bench):
    return bench.client.describe().identity


# Refused


def test_old_positions_are_refused_by_every_run_until_someone_chooses(bench, recreate):
    bench.create()
    bench.put(1)
    bench.run()
    old = identity(bench).created
    before = bench.version
    recreate()
    bench.put(2)
    for _ in range(2):
        with pytest.raises(StreamRecreated) as caught:
            bench.plan()
        assert f"created at {old:%Y-%m-%dT%H:%M:%SZ}" in str(caught.value)
        assert f"created at {identity(bench).created:%Y-%m-%dT%H:%M:%SZ}" in str(caught.value)
        assert "on_recreated: restart" in str(caught.value)
    assert (bench.version, bench.items) == (before, [1])


def test_a_stream_that_is_older_than_the_one_in_the_table_is_refused_also_with_restart(bench, faults):
    bench.create()
    bench.put(1)
    bench.run()
    before = bench.version

    def an_hour_older(_, answer):
        summary = answer.members["StreamDescriptionSummary"]
        created = summary["StreamCreationTimestamp"] - 3600
        return answer.but(StreamDescriptionSummary=summary | {"StreamCreationTimestamp": created})

    faults.answer("DescribeStreamSummary", an_hour_older)
    with pytest.raises(StreamRecreated):
        bench.plan(**RESTART)
    assert bench.version == before


# Restarted


@pytest.mark.parametrize("start", ["TRIM_HORIZON", "LATEST", "AT_TIMESTAMP:2026-01-01T00:00:00Z"])
def test_restart_lands_all_of_the_new_stream_from_its_beginning_in_the_same_table(bench, recreate, start):
    bench.create()
    bench.run(start=start)
    bench.later(hours=1)
    bench.put(1)
    bench.run(start=start)
    recreate()
    bench.put(2, 3)
    bench.later(hours=1)
    assert bench.run(start=start, **RESTART).errors == {}
    bench.put(4)
    assert bench.run(start=start, **RESTART).errors == {}
    assert bench.items == [1, 2, 3, 4]


def test_restart_is_frozen_before_anything_is_read(bench, recreate, faults):
    bench.create()
    bench.put(1)
    bench.run()
    shards = recreate(2)
    bench.put(2)
    faults.calls.clear()
    bench.plan(**RESTART)  # and then dies
    assert faults.count("GetRecords") == faults.count("GetShardIterator") == 0
    assert {shard: bench.at(shard).position for shard in bench.positions.shards} == dict.fromkeys(
        shards, BEGINNING
    )
    bench.later(hours=1)
    bench.put(3, part=0.5)
    bench.run()  # the choice was made
    assert bench.items == [1, 2, 3]


def test_restart_forgets_the_old_streams_shards(bench, recreate):
    (parent,) = bench.create()
    bench.split(parent)
    bench.put(1)
    bench.run()
    shards = recreate()
    bench.put(2)
    result = bench.run(**RESTART)
    assert set(bench.positions.shards) == set(shards) == {parent}
    assert result.outcomes[parent].state is ShardState.COMMITTED
    assert bench.items == [1, 2]


def test_restart_without_a_recreated_stream_changes_nothing(bench):
    bench.create()
    bench.put(1)
    bench.run(**RESTART)
    bench.put(2)
    bench.run(**RESTART)
    assert (bench.items, bench.positions.predecessors) == ([1, 2], ())


def test_a_first_run_with_restart_begins_where_it_is_told(bench):
    bench.create()
    bench.put(1)
    bench.later(seconds=5)
    bench.run(start="LATEST", **RESTART)
    bench.put(2)
    bench.run(start="LATEST", **RESTART)
    assert bench.items == [2]


def test_records_of_the_new_stream_that_expired_before_the_restart_are_told(bench, recreate):
    bench.create()
    bench.put(1)
    bench.run()
    (shard,) = recreate()
    bench.put(2)
    bench.later(hours=30)
    (available,) = bench.put(3)
    error = bench.run(**RESTART).errors.get(shard)
    assert isinstance(error, DataLost)
    assert f"complete until {identity(bench).created:%Y-%m-%dT%H:%M:%SZ}" in str(error)
    assert f"first available record: {available}" in str(error)


# What is kept of the old stream


def test_where_the_old_stream_stood_is_recorded(bench, recreate):
    first, second = bench.create(2)
    bench.put(0)
    (stood, _) = bench.put(1, 2, part=0.5)
    lower, upper = bench.split(first, part=0.25)
    bench.run([first])
    bench.run([second], max_records=1)
    old = identity(bench)
    recreate()
    bench.run(**RESTART)
    unfinished = {second: Position.after(stood), lower: BEGINNING, upper: BEGINNING}
    assert bench.positions.predecessors == (Predecessor(old, unfinished),)
    bench.put(3)
    bench.run()
    assert bench.positions.predecessors == (Predecessor(old, unfinished),)


def test_all_old_streams_are_recorded_oldest_first(bench, recreate):
    (shard,) = bench.create()
    stood = []
    for item in range(3):
        numbers = bench.put(item)
        bench.run(**RESTART)
        stood.append(Predecessor(identity(bench), {shard: Position.after(numbers[-1])}))
        recreate()
    bench.run(**RESTART)
    assert bench.positions.predecessors == tuple(stood)
    assert bench.items == [0, 1, 2]


def test_positions_continue_those_of_the_old_stream(bench, recreate):
    bench.create()
    bench.put(1)
    bench.run()
    old = bench.positions
    recreate()
    bench.plan(**RESTART)
    assert (bench.positions.previous, bench.positions.generation) == (old.commit_id, old.generation + 1)


# Runs that were planned on the old stream


def test_a_run_planned_on_the_old_stream_commits_nothing_after_the_restart(bench, recreate):
    bench.create()
    bench.run()
    bench.put(1)
    plan = bench.plan()
    recreate()
    bench.put(2)
    bench.run(**RESTART)
    before = bench.version
    with pytest.raises(StreamRecreated, match="nothing was committed"):
        bench.execute(plan)
    assert (bench.version, bench.items) == (before, [2])


def test_a_run_that_saw_only_the_old_stream_is_refused_by_the_table_after_the_restart(
    bench, recreate, faults
):
    bench.create()
    bench.run()
    bench.put(1)
    plan = bench.plan()
    old = identity(bench).created.timestamp()

    def landed_too_late(*arguments):
        landing = land_group(*arguments)
        recreate()
        bench.put(2)
        bench.run(**RESTART)
        # As if it had asked just before that which stream it is.
        faults.answer(
            "DescribeStreamSummary",
            lambda _, answer: answer.but(
                StreamDescriptionSummary=answer.members["StreamDescriptionSummary"]
                | {"StreamCreationTimestamp": old}
            ),
        )
        return landing

    with pytest.raises(StreamRecreated, match="has positions of the stream created at"):
        execute_run(landed_too_late, bench.client, bench.table, plan)
    faults.clear()
    assert bench.items == [2]
    assert bench.run().errors == {}
    assert bench.items == [2]


def test_a_stream_recreated_while_it_is_read_commits_nothing_of_either(bench, faults):
    (shard,) = bench.create()
    bench.run()
    bench.put(1, 2)
    faults.page_size(1)
    faults.before("GetRecords", lambda: (bench.later(hours=1), faults.recreate(bench.stream)), times=1)
    plan = bench.plan(**RESTART)
    with pytest.raises(StreamRecreated, match="nothing was committed"):
        bench.execute(plan)
    assert bench.items == []
    faults.clear()
    bench.put(3)
    assert bench.run(**RESTART).errors == {}
    assert (bench.items, list(bench.positions.shards)) == ([3], [shard])


def test_two_runs_that_restart_at_once_are_one_restart(bench, recreate):
    bench.create()
    bench.put(1)
    bench.run()
    recreate()
    bench.put(2)
    slow = bench.plan(**RESTART)
    bench.run(**RESTART)
    (outcome,) = bench.execute(slow).outcomes.values()
    assert outcome.state is ShardState.CONFLICT
    assert (bench.items, len(bench.positions.predecessors)) == ([1, 2], 1)
