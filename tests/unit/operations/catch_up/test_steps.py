"""A gap is filled in steps: each commits its rows together with how far the gap is filled."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial

import pytest
from msgspec.structs import replace

from kinesis_assets.cli.command_line import commands
from kinesis_assets.errors import DataLost, ReplayUnfinished
from kinesis_assets.kinesis.reading.range import RangeEnd
from kinesis_assets.operations.catch_up import gaps_to_fill, jump
from kinesis_assets.operations.replay.outcome import ReplayState
from support.catch_ups import Killed, fill_gaps, kill, kill_commit, open_gaps
from support.shard_ids import A
from support.shifted_clock import ShiftedClock
from support.single_task import fill_as_in_spark

pytestmark = pytest.mark.slow


@pytest.fixture
def slow(bench, faults):
    """A stream of which a catch-up skipped 2 to 9. A response has one record, and takes six minutes."""
    clock = ShiftedClock()
    bench.set_machine_clock(clock)
    bench.create()
    bench.put(1)
    bench.run()
    bench.later(minutes=2)
    bench.numbers = dict(zip(range(2, 6), bench.put(*range(2, 6)), strict=True))
    bench.later(hours=1)
    bench.numbers |= zip(range(6, 10), bench.put(*range(6, 10)), strict=True)
    bench.later(minutes=2)
    bench.put(10)
    jump(bench.client, bench.table, by="ann", apply=True)
    faults.page_size(1)
    faults.answer("GetRecords", lambda *_: clock.advance(0.1))
    return bench


def recording(starts):
    """Return a fill function that records where each step starts."""

    def fill(job, ranges):
        starts.extend(range_.start.sequence_number for range_ in ranges)
        return fill_as_in_spark(job, ranges)

    return fill


def fill_one_record(job, ranges):
    """Read one record of each range, as if the time were over."""
    one = [replace(range_, bounds=replace(range_.bounds, max_records=1)) for range_ in ranges]
    result = fill_as_in_spark(job, one)
    return replace(result, shards=tuple(replace(each, end=RangeEnd.TIME_LIMIT) for each in result.shards))


def test_each_step_commits_its_rows_and_the_last_one_clears_the_gap(slow):
    after_steps = []

    def report(result):
        after_steps.append((slow.items, open_gaps(slow), result.outcomes[A].state))

    assert fill_gaps(slow, report=report) == {}
    *before, last = after_steps
    assert len(before) >= 2
    assert all(gaps == {A: 1} for _, gaps, _ in before)
    assert all(state is ReplayState.FILLED for _, _, state in after_steps)
    assert [len(items) for items, _, _ in after_steps] == sorted({len(items) for items, _, _ in after_steps})
    assert last[:2] == (list(range(1, 10)), {})
    slow.run()
    slow.assert_exactly_once()


def test_a_step_starts_at_the_last_record_of_the_one_before(slow):
    starts, ends = [], []
    fill_gaps(
        slow,
        fill=recording(starts),
        report=lambda result: ends.append(result.outcomes[A].stats.through.sequence_number),
    )
    assert starts == [slow.numbers[2], *ends[:-1]]


def test_a_killed_backfill_continues_where_the_last_step_ended(slow):
    with pytest.raises(Killed):
        fill_gaps(slow, report=kill)
    last = slow.items[-1]
    starts = []
    assert fill_gaps(slow, fill=recording(starts)) == {}
    assert starts[0] == slow.numbers[last]
    assert (slow.items, open_gaps(slow)) == (list(range(1, 10)), {})


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", [0, 1])
def test_killed_at_the_commit_of_a_step(slow, monkeypatch, step, after):
    kill_commit(monkeypatch, after=after, skip=step)
    with pytest.raises(Killed):
        fill_gaps(slow)
    assert open_gaps(slow) == {A: 1}
    slow.run()
    assert fill_gaps(slow) == {}
    assert open_gaps(slow) == {}
    slow.assert_exactly_once()


def test_the_filled_part_of_a_gap_is_recorded_once(slow):
    counts = []
    fill_gaps(slow, report=lambda _: counts.append(len(slow.amendment.cleared[A])))
    assert set(counts) == {1}


def test_two_backfills_at_once_add_each_record_once(slow):
    others = [partial(fill_gaps, slow)]

    def fill(job, ranges):
        result = fill_as_in_spark(job, ranges)
        if others:
            others.pop()()
        return result

    assert fill_gaps(slow, fill=fill) == {}
    assert open_gaps(slow) == {}
    slow.run()
    slow.assert_exactly_once()


def test_a_shard_that_is_split_and_finished_between_steps_is_filled(slow):
    def split(_):
        if not slow.at(A).finished:
            slow.split(A)
            slow.run()

    assert fill_gaps(slow, report=split) == {}
    assert (slow.at(A).finished, open_gaps(slow)) == (True, {})
    slow.assert_exactly_once()


def test_an_operators_replay_clears_a_gap_that_was_filled_in_part(slow):
    with pytest.raises(Killed):
        fill_gaps(slow, report=kill)
    starts = [str(slow.numbers[slow.items[-1]])]
    while open_gaps(slow):
        result = slow.replay(starts[-1], None, A)
        starts.append(result.outcomes[A].stats.through.sequence_number)
    assert slow.items == list(range(1, 10))


def test_a_filled_part_is_open_again_after_a_seek_back_into_it(slow, faults):
    with pytest.raises(Killed):
        fill_gaps(slow, report=kill)
    faults.clear()
    slow.seek(f"AT_SEQUENCE_NUMBER:{slow.numbers[3]}")
    assert (slow.items, open_gaps(slow)) == ([1, 2], {A: 1})
    slow.run()
    assert fill_gaps(slow) == {}
    assert open_gaps(slow) == {}
    slow.assert_exactly_once()


def test_the_time_to_loss_of_a_run_counts_what_a_catch_up_is_still_to_add(slow):
    slow.later(hours=3)

    def hours_left():
        return round(slow.run().outcomes[A].time_to_loss_ms / 3_600_000)

    assert hours_left() == 20
    fill_gaps(slow, fill=fill_one_record)
    assert hours_left() == 20  # 3 is next, which is as old as 2
    fill_gaps(slow)
    assert hours_left() == 24


def test_the_positions_command_prints_until_when_what_is_still_to_be_added_is_safe(slow, capsys):
    slow.run()
    (gap,) = slow.at(A).gaps
    place = ["--table", slow.table.uri, "--endpoint-url", slow.settings.endpoint_url]

    def printed():
        commands(["positions", "--stream", slow.stream, *place, "--json"], standalone_mode=False)
        return json.loads(capsys.readouterr().out)["safe_until"]

    assert printed() == (gap.since + timedelta(hours=24)).isoformat()
    fill_gaps(slow)
    assert printed() == slow.at(A).safe_until.isoformat()


# Expired


def test_records_that_expire_between_steps_are_recorded_as_lost_and_the_others_are_added(slow):
    def expire(_):
        if len(slow.items) < 5:  # once, after the first step
            slow.later(hours=23)

    errors = fill_gaps(slow, report=expire)
    assert isinstance(errors[A], DataLost)
    lost = [gap for gap in slow.at(A).gaps if not gap.to_fill]
    assert [gap.next_sequence_number for gap in lost] == [slow.numbers[6]]
    assert slow.items == [1, 2, 3, 4, 6, 7, 8, 9]
    assert open_gaps(slow) == {A: 1}
    assert gaps_to_fill(slow.client, slow.table) == {}
    assert fill_gaps(slow) == {}  # it is reported once


def test_a_gap_whose_first_records_have_expired_is_filled_in_steps_too(slow):
    slow.later(hours=23)
    starts = []
    errors = fill_gaps(slow, fill=recording(starts))
    assert isinstance(errors[A], DataLost)
    assert slow.items == [1, 6, 7, 8, 9]
    assert open_gaps(slow) == {A: 1}
    assert len(starts) == len(set(starts)) == 2


@pytest.mark.parametrize("keep", [slice(0), slice(1, None)], ids=["nothing", "not the first"])
def test_what_a_step_did_not_read_is_not_given_up_because_of_one_response(slow, faults, keep):
    """The first step cannot prove that it read all, and the response that confirms what is lost is wrong."""
    slow.later(hours=23)
    faults.page_size(10)

    def fill(job, ranges):
        result = fill_one_record(job, ranges)
        faults.answer("GetRecords", omit, shard_id=A)
        return result

    def omit(_call, response):
        return response.but(Records=response.members["Records"][keep], MillisBehindLatest=0)

    assert isinstance(fill_gaps(slow, fill=fill)[A], ReplayUnfinished)
    faults.clear()
    assert len(gaps_to_fill(slow.client, slow.table)[A]) == 1
    fill_gaps(slow)
    assert slow.items == [1, 6, 7, 8, 9]


def test_a_step_without_progress_ends_the_backfill_with_an_error(slow):
    assert isinstance(fill_gaps(slow, fill=fill_one_record)[A], ReplayUnfinished)
    assert open_gaps(slow) == {A: 1}
    assert fill_gaps(slow) == {}
    assert slow.items == list(range(1, 10))
