"""A catch-up gives up no record, and clears no gap, on the word of one response."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import DataLost, ReplayUnfinished, ShardVanished
from kinesis_assets.operations.catch_up import backfill, gaps_to_fill, jump
from support.shard_ids import A
from support.shard_lists import omit_shards
from support.single_task import fill_as_in_spark
from support.timing import REPLAYING

pytestmark = pytest.mark.slow


@pytest.fixture
def behind(bench):
    """A stream of which a run has read record 1, and left 2, 3 and the newest, 9."""
    bench.create()
    bench.put(1)
    bench.run()
    bench.later(minutes=2)
    bench.numbers = bench.put(2, 3)
    bench.later(minutes=2)
    bench.put(9)
    return bench


def skip_unread(bench):
    jump(bench.client, bench.table, by="ann", apply=True)


def fill(bench):
    """Return the error of the shard; None if its gaps were filled."""
    return backfill(fill_as_in_spark, bench.client, bench.table, by="ann", retries=REPLAYING).get(A)


def to_fill(bench):
    return len(gaps_to_fill(bench.client, bench.table).get(A, ()))


def omit(faults, *, keep, first=None, behind_ms=0, times=1):
    """Return some of the records of one response that has any, or of more, and report the tip.

    Args:
        faults: The service's faults.
        keep: The records that are returned.
        first: The first record of the response that is changed; None changes the next one.
        behind_ms: MillisBehindLatest of the response.
        times: The number of responses.
    """
    left = [times]

    def change(_call, response):
        records = response.members.get("Records")
        if not records or not left[0] or first not in {None, records[0]["SequenceNumber"]}:
            return None
        left[0] -= 1
        return response.but(Records=records[keep], MillisBehindLatest=behind_ms)

    faults.answer("GetRecords", change, shard_id=A)


def shorten_retention(faults):
    """Report a retention of 24 hours."""

    def shorter(_call, response):
        summary = response.members["StreamDescriptionSummary"] | {"RetentionPeriodHours": 24}
        return response.but(StreamDescriptionSummary=summary)

    faults.answer("DescribeStreamSummary", shorter)


NOTHING, ONLY_FIRST, NOT_FIRST = slice(0), slice(1), slice(1, None)


def test_wrong_responses_that_nothing_is_unread_move_no_shard(behind, faults):
    position = behind.at(A).position.sequence_number
    faults.answer("GetRecords", lambda _call, response: response.but(Records=[], MillisBehindLatest=0))
    skip_unread(behind)
    faults.clear()
    assert behind.at(A).position.sequence_number == position
    behind.run()
    assert behind.items == [1, 2, 3, 9]


def test_a_gap_starts_at_the_first_skipped_record_although_two_responses_omit_it(behind, faults):
    omit(faults, keep=NOT_FIRST, first=behind.numbers[0], behind_ms=1000, times=2)
    skip_unread(behind)
    faults.clear()
    (gap,) = behind.at(A).gaps
    assert gap.after.sequence_number == behind.numbers[0]
    assert fill(behind) is None
    assert behind.items == [1, 2, 3]


@pytest.mark.parametrize("keep", [NOTHING, ONLY_FIRST], ids=["nothing", "only the first"])
@pytest.mark.parametrize("moved", [False, True], ids=["at the end of the gap", "after a later record"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_gap_that_was_read_to_a_false_tip_is_filled_by_the_next_catch_up(
    behind, faults, keep, moved, times
):
    skip_unread(behind)
    if moved:
        behind.put(4)
        behind.run()
    omit(faults, keep=keep, times=times)
    assert isinstance(fill(behind), ReplayUnfinished)
    faults.clear()
    assert to_fill(behind) == 1
    assert fill(behind) is None
    assert behind.items == [1, 2, 3, *([4, 9] if moved else [])]
    assert to_fill(behind) == 0


def test_a_gap_of_which_a_response_omitted_the_first_record_is_not_given_up(behind, faults):
    skip_unread(behind)
    omit(faults, keep=NOT_FIRST)
    assert isinstance(fill(behind), ReplayUnfinished)
    faults.clear()
    assert to_fill(behind) == 1
    assert fill(behind) is None
    assert behind.items == [1, 2, 3]


def test_a_gap_is_not_given_up_because_one_response_names_a_shorter_retention(behind, faults):
    behind.set_retention(48)
    behind.run(max_records=1)
    skip_unread(behind)
    behind.later(hours=30)

    shorten_retention(faults)
    assert isinstance(fill(behind), ReplayUnfinished)
    faults.clear()
    assert to_fill(behind) == 1
    assert fill(behind) is None
    assert behind.items == [1, 2, 3]


@pytest.fixture
def finished(behind):
    """The shard is closed after the jump, and finished with a gap that is to be filled."""
    skip_unread(behind)
    behind.split(A)
    behind.run()
    assert behind.at(A).finished
    return behind


def test_a_gap_of_a_shard_that_has_expired_is_reported_once_and_stays_recorded(finished):
    finished.later(hours=30)
    assert isinstance(fill(finished), DataLost)
    assert to_fill(finished) == 0
    assert fill(finished) is None
    positions = finished.table.snapshot().with_all_archived(finished.positions)
    assert [gap.to_fill for gap in positions.shards[A].gaps] == [False]


def test_a_gap_of_a_shard_that_only_one_list_lacks_is_not_given_up(behind, faults):
    skip_unread(behind)
    behind.later(hours=1)
    behind.split(A)
    behind.run()
    assert behind.at(A).finished
    behind.later(hours=23, minutes=30)  # the gap has expired, the shard has not
    omit_shards(faults, A, times=1)
    assert isinstance(fill(behind), ShardVanished)
    faults.clear()
    assert to_fill(behind) == 1


def test_a_gap_of_an_unlisted_shard_is_not_given_up_before_the_recorded_retention(behind, faults):
    behind.set_retention(48)
    behind.run(max_records=1)
    skip_unread(behind)
    behind.split(A)
    behind.run()
    assert behind.at(A).finished
    behind.later(hours=30)
    shorten_retention(faults)
    omit_shards(faults, A)
    assert isinstance(fill(behind), ShardVanished)
    faults.clear()
    assert to_fill(behind) == 1
    assert fill(behind) is None
    assert behind.items == [1, 2, 3, 9]
