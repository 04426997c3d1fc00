"""The lag of a shard and its time to loss, in outcomes and in the output of `positions`."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from kinesis_assets.cli.command_line import commands
from kinesis_assets.ingest.idle_shards import lag_of
from kinesis_assets.ingest.outcome import ShardState

CONTINUE = {"on_data_loss": "continue"}
HOUR_MS = 3_600_000


@pytest.mark.parametrize("hours", [24, 168])
def test_the_time_to_loss_at_the_tip_is_the_retention(bench, hours):
    (shard,) = bench.create()
    bench.set_retention(hours)
    bench.put(1)
    bench.later(hours=5)
    outcome = bench.run().outcomes[shard]
    assert (outcome.lag_ms, outcome.time_to_loss_ms) == (0, hours * HOUR_MS)


def test_records_that_arrive_in_the_second_of_the_last_response_change_neither(bench):
    (shard,) = bench.create()
    bench.later(seconds=0.7)
    bench.put(1)
    outcome = bench.run().outcomes[shard]
    assert (outcome.lag_ms, outcome.time_to_loss_ms) == (0, 24 * HOUR_MS)


def test_an_expired_shard_that_was_given_up_has_no_time_to_loss(bench):
    (parent,) = bench.create()
    bench.run()
    bench.split(parent)
    bench.later(hours=100)
    outcome = bench.run([parent], **CONTINUE).outcomes[parent]
    assert (outcome.state, outcome.time_to_loss_ms) == (ShardState.FINISHED, None)


def test_after_a_bounded_read_they_count_from_the_last_record_that_was_read(bench):
    first, second = bench.create(2)
    bench.put(1)
    bench.later(hours=2)
    bench.put(2)
    bench.put(3, part=0.5)
    bench.later(hours=3)
    outcomes = bench.run(max_bytes=1).outcomes
    assert (outcomes[first].lag_ms, outcomes[first].time_to_loss_ms) == (5 * HOUR_MS, 19 * HOUR_MS)
    assert (outcomes[second].lag_ms, outcomes[second].time_to_loss_ms) == (0, 24 * HOUR_MS)


def test_the_lag_is_the_current_one_and_not_a_maximum(bench, faults):
    (shard,) = bench.create()
    bench.put(1, 2, 3)
    bench.later(hours=5)
    assert bench.run(max_records=1).outcomes[shard].lag_ms == 5 * HOUR_MS
    faults.page_size(1)  # behind at first, and finally at the tip
    assert bench.run().outcomes[shard].lag_ms == 0
    bench.later(hours=5)
    assert bench.run().outcomes[shard].lag_ms == 0


def test_the_lag_and_the_time_to_loss_of_a_failed_shard_are_those_of_its_position(bench, faults):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=5)
    faults.fail(status=400, code="AccessDeniedException")
    outcome = bench.run().outcomes[shard]
    assert (outcome.state, outcome.lag_ms, outcome.time_to_loss_ms) == (
        ShardState.FAILED,
        5 * HOUR_MS,
        19 * HOUR_MS,
    )


@pytest.mark.parametrize("limits", [{}, {"max_records": 1}], ids=["to the tip", "behind"])
def test_the_lag_after_a_run_is_the_one_that_the_checks_compute_from_the_table(bench, limits):
    (shard,) = bench.create()
    bench.put(1)
    bench.later(hours=2)
    bench.put(2)
    bench.later(hours=3)
    outcome = bench.run(**limits).outcomes[shard]
    assert lag_of(bench.at(shard), bench.now) == timedelta(milliseconds=outcome.lag_ms)


def test_records_of_a_waiting_shard_expire_although_its_lag_is_unknown(bench):
    (parent,) = bench.create()
    bench.put(1)
    bench.plan()
    bench.later(hours=2)
    children = bench.split(parent)
    bench.later(hours=3)
    outcomes = bench.run(children).outcomes
    found = [outcomes[child] for child in children]
    assert {(each.state, each.lag_ms, each.time_to_loss_ms) for each in found} == {
        (ShardState.WAITING, None, 19 * HOUR_MS)
    }


def test_the_time_to_loss_of_a_failed_shard_uses_the_lowest_observed_retention(bench, faults):
    (shard,) = bench.create()
    bench.run()
    bench.set_retention(168)
    faults.fail(status=400, code="AccessDeniedException")
    assert bench.run().outcomes[shard].time_to_loss_ms == 24 * HOUR_MS


def test_the_time_to_loss_after_possible_loss_is_zero(bench):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=30)
    assert bench.run().outcomes[shard].time_to_loss_ms == 0


def test_a_finished_shard_has_no_time_to_loss(bench):
    (parent,) = bench.create()
    bench.put(1)
    bench.split(parent)
    assert bench.run().outcomes[parent].time_to_loss_ms is None
    assert bench.run().outcomes[parent].time_to_loss_ms is None


@pytest.fixture
def printed(bench, capsys):
    """Return the output of `positions --json` by shard."""

    def printed():
        place = ["--table", bench.table.uri, "--endpoint-url", bench.settings.endpoint_url]
        commands(["positions", "--stream", bench.stream, *place, "--json"], standalone_mode=False)
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return {line["shard"]: line for line in lines}

    return printed


@pytest.mark.slow
def test_the_positions_command_prints_until_when_unread_records_are_safe(bench, printed):
    first, second = bench.create(2)
    bench.put(1)
    bench.run()
    at_tip = bench.now
    bench.later(hours=2)
    bench.put(2, 3)
    children = bench.split(second, part=0.75)
    bench.later(hours=1)
    bench.run(max_records=1)
    lines = printed()
    assert {shard: line["safe_until"] for shard, line in lines.items()} == {
        first: (at_tip + timedelta(hours=26)).isoformat(),
        second: None,
        **dict.fromkeys(children, (at_tip + timedelta(hours=27)).isoformat()),
    }


@pytest.mark.slow
def test_the_positions_command_prints_the_gaps(bench, printed):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=30)
    bench.put(2)
    bench.run(**CONTINUE)
    (gap,) = bench.at(shard).gaps
    assert printed()[shard]["gaps"] == [str(gap)]
