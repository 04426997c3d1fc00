"""Gaps: which ones a replay fills and clears."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.range import RangeEnd
from kinesis_assets.operations.replay.outcome import ReplayState
from kinesis_assets.operations.replay.run import filled_gaps
from kinesis_assets.operations.replay.task import ShardFillResult
from kinesis_assets.table.positions.amendments import ClearedGap, next_amendment, unfilled
from kinesis_assets.table.positions.range_stats import RangeStats
from support.replays import A, states

pytestmark = pytest.mark.slow

KEPT = {"created": datetime(2026, 1, 1, tzinfo=UTC), "kept_since": datetime(2026, 2, 1, tzinfo=UTC)}


def ingest_with_gap(bench) -> str:
    """Skip records 2 and 3 with a seek, and return the first sequence number after the gap."""
    bench.create()
    bench.put(0, 1)
    bench.run()
    bench.later(seconds=5)
    _, _, fourth = bench.put(2, 3, 4)
    bench.seek(f"AT_SEQUENCE_NUMBER:{fourth}")
    bench.later(seconds=5)
    bench.put(5)
    bench.run()
    assert bench.items == [0, 1, 4, 5]
    return fourth


def open_gaps(bench) -> list[str | None]:
    """Return the first sequence numbers after the gaps that are not cleared."""
    amendment = bench.amendment
    return [
        gap.next_sequence_number
        for gap in bench.at(A).gaps
        if amendment is None or not amendment.has_cleared(A, gap)
    ]


def test_a_completely_replayed_gap_is_cleared_in_an_amendment(bench):
    fourth = ingest_with_gap(bench)
    assert open_gaps(bench) == [fourth]
    positions = bench.positions

    result = bench.replay(by="ann")

    assert result.outcomes[A].gaps_filled == 1
    assert bench.items == [0, 1, 2, 3, 4, 5]
    assert open_gaps(bench) == []
    assert bench.positions == positions
    assert (bench.amendment.by, bench.amendment.filled.keys()) == ("ann", {A})


def test_a_gap_whose_rows_exist_already_is_cleared_without_adding_rows(bench):
    fourth = ingest_with_gap(bench)
    (gap,) = bench.at(A).gaps
    bench.replay(gap.until.isoformat(), None, A)  # without the start of the gap
    assert (bench.items, open_gaps(bench)) == ([0, 1, 2, 3, 4, 5], [fourth])
    result = bench.replay(gap.after.sequence_number, fourth, A)
    assert states(result) == {A: (ReplayState.WHOLE, 0)}
    assert open_gaps(bench) == []
    version = bench.version
    bench.replay()
    assert (open_gaps(bench), bench.version) == ([], version)


def test_a_gap_is_not_filled_if_records_were_excluded_by_their_arrival_time():
    arrived = datetime(2026, 2, 2, tzinfo=UTC)
    gap = Gap(after=Position.after("5"), since=arrived, next_sequence_number="9", until=arrived)
    result = ShardFillResult(
        shard_id=A,
        stats=replace(RangeStats.unread(Position.parse("TRIM_HORIZON")), through=Position.after("9")),
        end=RangeEnd.BOUND,
        read=5,
        first_read="5",
        last_arrival=arrived,
        error=None,
    )
    for window_start, filled in ((arrived, (ClearedGap.of(gap),)), (arrived + timedelta(seconds=1), ())):
        assert (
            filled_gaps({gap: gap}, result, **KEPT, window_start=window_start, up_to_position=False) == filled
        )


def test_the_part_of_a_gap_that_was_read_in_time_counts_as_filled_only_from_its_first_record_on():
    arrived = datetime(2026, 2, 2, tzinfo=UTC)
    gap = Gap(after=Position.after("5"), since=arrived, next_sequence_number="19", until=arrived)

    def filled(first, through, part=gap):
        result = ShardFillResult(
            shard_id=A,
            stats=replace(RangeStats.unread(Position.parse("TRIM_HORIZON")), through=Position.after(through)),
            end=RangeEnd.TIME_LIMIT,
            read=5,
            first_read=first,
            last_arrival=arrived,
            error=None,
        )
        return filled_gaps({gap: part}, result, **KEPT, window_start=arrived, up_to_position=True)

    assert filled("5", "9") == (ClearedGap(gap.after, "9", arrived),)
    assert filled("6", "9") == ()
    assert filled("5", "5") == ()
    assert filled("5", "20") == (ClearedGap.of(gap),)
    rest = replace(gap, after=Position.parse("AT_SEQUENCE_NUMBER:9"))
    assert filled("9", "12", rest) == (ClearedGap(gap.after, "12", arrived),)
    assert filled("10", "12", rest) == ()
    assert filled("9", "9", rest) == ()


def test_the_rest_of_a_gap_starts_after_the_longest_part_that_was_filled():
    arrived = datetime(2026, 2, 2, tzinfo=UTC)
    gap = Gap(after=Position.after("5"), since=arrived, next_sequence_number="19", until=arrived)
    later = arrived + timedelta(hours=1)
    parts = (ClearedGap(gap.after, "9"), ClearedGap(gap.after, "12", later), ClearedGap(gap.after, "10"))
    amendment = next_amendment(None, batch_id=1, at=arrived, by=None, cleared={A: parts})
    rest = replace(gap, after=Position.parse("AT_SEQUENCE_NUMBER:12"), since=later)
    assert unfilled(amendment, A, [gap]) == {gap: rest}
    filled = next_amendment(amendment, batch_id=2, at=arrived, by=None, cleared={A: (ClearedGap.of(gap),)})
    assert unfilled(filled, A, [gap]) == {}


def test_a_gap_of_which_the_end_is_not_replayed_is_not_cleared(bench):
    fourth = ingest_with_gap(bench)
    (gap,) = bench.at(A).gaps
    bench.replay("TRIM_HORIZON", str(int(gap.after.sequence_number) + 1), A)
    assert open_gaps(bench) == [fourth]


def test_a_gap_whose_records_may_have_expired_is_not_cleared(bench):
    fourth = ingest_with_gap(bench)
    bench.later(hours=23, minutes=59, seconds=55)  # 0 and 1 have expired, the skipped items have not
    bench.replay()
    assert open_gaps(bench) == [fourth]


def skip_unread(bench, start="TRIM_HORIZON"):
    """Plan a first run, and skip records 0 and 1 with a seek before anything is read."""
    bench.create()
    bench.later(seconds=5)
    bench.plan(start=start)
    bench.put(0, 1)
    bench.later(seconds=5)
    (second,) = bench.put(2)
    bench.seek(f"AT_SEQUENCE_NUMBER:{second}")
    bench.run()
    assert bench.items == [2]


@pytest.mark.parametrize("start", ["TRIM_HORIZON", "LATEST"])
def test_a_gap_at_the_start_of_the_first_run_is_cleared(bench, start):
    skip_unread(bench, start)
    assert bench.replay().outcomes[A].gaps_filled == 1
    assert (bench.items, open_gaps(bench)) == ([0, 1, 2], [])


def test_a_gap_at_the_start_of_an_old_stream_begins_at_the_first_record_that_it_has(bench):
    bench.create()
    for item in (7, 8):
        bench.put(item)
        bench.later(hours=20)  # 7 expires
    bench.plan()
    (second,) = bench.put(2)
    bench.seek(f"AT_SEQUENCE_NUMBER:{second}")
    bench.replay()
    assert (bench.items, open_gaps(bench)) == ([8], [])


def test_a_gap_of_an_empty_shard_is_cleared(bench):
    bench.create()
    bench.plan()
    bench.later(seconds=5)
    bench.seek("LATEST")
    assert len(open_gaps(bench)) == 1
    bench.replay()
    assert open_gaps(bench) == []


@pytest.mark.parametrize("start", ["TRIM_HORIZON", "LATEST"])
def test_a_gap_at_the_start_is_not_cleared_once_its_records_may_have_expired(bench, start):
    skip_unread(bench, start)
    bench.later(hours=24)
    bench.replay()
    assert len(open_gaps(bench)) == 1


def test_a_gap_at_the_start_is_not_cleared_by_a_replay_that_starts_later(bench):
    skip_unread(bench, "LATEST")
    first, second, _ = (number for _, number, _ in bench.acknowledged)
    for start in (second, (bench.now - timedelta(seconds=2)).isoformat()):
        bench.replay(start, None, A)
        assert len(open_gaps(bench)) == 1
    bench.replay("TRIM_HORIZON", first, A)  # without its end
    assert len(open_gaps(bench)) == 1


def test_a_cleared_gap_is_open_again_after_a_seek_back_into_it(bench):
    fourth = ingest_with_gap(bench)
    bench.replay()
    numbers = [number for _, number, _ in bench.acknowledged]
    bench.seek(f"AT_SEQUENCE_NUMBER:{numbers[3]}")
    assert open_gaps(bench) == [numbers[3]]
    assert fourth not in open_gaps(bench)


def test_a_cleared_gap_before_the_target_of_a_seek_stays_cleared(bench):
    fourth = ingest_with_gap(bench)
    bench.replay()
    bench.seek(f"AFTER_SEQUENCE_NUMBER:{fourth}")
    assert (len(bench.at(A).gaps), open_gaps(bench)) == (1, [])
