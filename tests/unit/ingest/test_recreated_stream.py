"""A stream that is deleted and created again under the same name is a different stream in the same table."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import DataLost, StreamRecreated
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.shard_lists import check_list
from kinesis_assets.ingest.task import land_group
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.positions.positions import Predecessor

BEGINNING = Position(PositionKind.TRIM_HORIZON)
RESTART = {"on_recreated": "restart"}


@pytest.fixture
def recreate(bench):
    """Delete the stream and create another one with the same name."""

    def recreate(shards=1):
        bench.delete()
        bench.later(hours=1)
        return bench.create(shards)

    return recreate


def identity(bench):
    return bench.client.describe().identity


# Without a restart


def test_every_run_fails_on_a_recreated_stream_until_a_policy_is_chosen(bench, recreate):
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


def test_a_list_of_the_new_stream_is_not_that_of_the_positions(bench, recreate):
    bench.create()
    bench.run()
    positions = bench.positions
    recreate()
    with pytest.raises(StreamRecreated):
        check_list(bench.client.listing(), positions)


def test_a_stream_older_than_the_one_in_the_table_is_refused_even_with_restart(bench, faults):
    bench.create()
    bench.put(1)
    bench.run()
    before = bench.version

    def one_hour_older(_, response):
        summary = response.members["StreamDescriptionSummary"]
        created = summary["StreamCreationTimestamp"] - 3600
        return response.but(StreamDescriptionSummary=summary | {"StreamCreationTimestamp": created})

    faults.answer("DescribeStreamSummary", one_hour_older)
    with pytest.raises(StreamRecreated):
        bench.plan(**RESTART)
    assert bench.version == before


# With a restart


@pytest.mark.parametrize("start", ["TRIM_HORIZON", "LATEST", "AT_TIMESTAMP:2026-01-01T00:00:00Z"])
@pytest.mark.slow
def test_restart_lands_the_new_stream_from_its_trim_horizon_in_the_same_table(bench, recreate, start):
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


def test_a_restart_is_stored_before_the_first_read(bench, recreate, faults):
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
    bench.run()  # the restart is stored
    assert bench.items == [1, 2, 3]


def test_restart_removes_the_shards_of_the_old_stream(bench, recreate):
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


def test_a_first_run_with_restart_uses_the_given_start(bench):
    bench.create()
    bench.put(1)
    bench.later(seconds=5)
    bench.run(start="LATEST", **RESTART)
    bench.put(2)
    bench.run(start="LATEST", **RESTART)
    assert bench.items == [2]


def test_loss_in_the_new_stream_before_the_restart_is_reported(bench, recreate):
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


# The recorded predecessors


def test_the_unfinished_positions_of_the_old_stream_are_recorded(bench, recreate):
    first, second = bench.create(2)
    bench.put(0)
    (last_read, _) = bench.put(1, 2, part=0.5)
    lower, upper = bench.split(first, part=0.25)
    bench.run([first])
    bench.run([second], max_records=1)
    old = identity(bench)
    recreate()
    bench.run(**RESTART)
    unfinished = {second: Position.after(last_read), lower: BEGINNING, upper: BEGINNING}
    assert bench.positions.predecessors == (Predecessor(old, unfinished),)
    bench.put(3)
    bench.run()
    assert bench.positions.predecessors == (Predecessor(old, unfinished),)


@pytest.mark.slow
def test_all_predecessors_are_recorded_oldest_first(bench, recreate):
    (shard,) = bench.create()
    predecessors = []
    for item in range(3):
        numbers = bench.put(item)
        bench.run(**RESTART)
        predecessors.append(Predecessor(identity(bench), {shard: Position.after(numbers[-1])}))
        recreate()
    bench.run(**RESTART)
    assert bench.positions.predecessors == tuple(predecessors)
    assert bench.items == [0, 1, 2]


def test_positions_continue_the_chain_of_the_old_stream(bench, recreate):
    bench.create()
    bench.put(1)
    bench.run()
    old = bench.positions
    recreate()
    bench.plan(**RESTART)
    assert (bench.positions.previous, bench.positions.generation) == (old.commit_id, old.generation + 1)


# Runs that were planned for the old stream


def test_a_run_planned_for_the_old_stream_commits_nothing_after_the_restart(bench, recreate):
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


def test_a_run_with_an_outdated_summary_of_the_old_stream_conflicts_with_the_positions(
    bench, recreate, faults
):
    bench.create()
    bench.run()
    bench.put(1)
    plan = bench.plan()
    old = identity(bench).created.timestamp()

    def land_and_restart(*arguments):
        landing = land_group(*arguments)
        recreate()
        bench.put(2)
        bench.run(**RESTART)
        # The run still receives the summary of the old stream.
        faults.answer(
            "DescribeStreamSummary",
            lambda _, response: response.but(
                StreamDescriptionSummary=response.members["StreamDescriptionSummary"]
                | {"StreamCreationTimestamp": old}
            ),
        )
        return landing

    with pytest.raises(StreamRecreated, match="has positions of the stream created at"):
        execute_run(land_and_restart, bench.client, bench.table, plan)
    faults.clear()
    assert bench.items == [2]
    assert bench.run().errors == {}
    assert bench.items == [2]


def test_a_run_commits_nothing_if_the_stream_is_recreated_while_it_reads(bench, faults):
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


def test_concurrent_runs_restart_the_stream_only_once(bench, recreate):
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
