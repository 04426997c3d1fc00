"""Replay: which missing rows it adds, where it ends, concurrent changes, errors and gaps."""

from __future__ import annotations

import errno
import threading
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import msgspec
import pytest
from deltalake import DeltaTable

from kinesis_assets.adopt.run import adopt
from kinesis_assets.errors import (
    CommitFailed,
    DataLost,
    InvalidInput,
    PastChanged,
    ReadFailed,
    ReplayUnfinished,
    ShardListIncomplete,
    ShardVanished,
    StreamRecreated,
)
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.range import RangeEnd
from kinesis_assets.kinesis.records.checksums import checksum
from kinesis_assets.kinesis.transport.memory_limiter import MemoryLimiter
from kinesis_assets.replay import task as fill_module
from kinesis_assets.replay.filled_gaps import filled_gaps
from kinesis_assets.replay.manifest import ShardFillResult
from kinesis_assets.replay.outcome import ReplayState
from kinesis_assets.replay.window import ReplayWindow
from kinesis_assets.seek.run import seek
from kinesis_assets.table import log_entries, rewrites
from kinesis_assets.table import table as table_module
from kinesis_assets.table.amendments import Amendment, ClearedGap
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.maintenance.retention import lower_floor
from kinesis_assets.table.range_stats import RangeStats
from kinesis_assets.testing import UserRecord, aggregate
from support.shifted_clock import ShiftedClock
from support.single_task import fill_as_in_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date

    from kinesis_assets.kinesis.reading.range import ShardRange
    from kinesis_assets.replay.manifest import FillResult
    from kinesis_assets.replay.task import FillJob

A, B, C = (f"shardId-{number:012d}" for number in range(3))


def states(result) -> dict[str, tuple[ReplayState, int]]:
    return {shard_id: (outcome.state, outcome.rows) for shard_id, outcome in result.outcomes.items()}


def text(time: datetime) -> str:
    return time.isoformat()


def numbers_in(bench) -> dict[tuple[str, int], int]:
    """The items in the table, by sequence number and sub-sequence number."""
    return {(row["sequence_number"], row["sub_sequence_number"]): int(row["data"]) for row in bench.rows}


def positions_file(bench) -> tuple[int, bytes]:
    """The commit id that the log points at, and the content of its positions file."""
    commit_id = bench.positions.commit_id
    with bench.table.files.open_input_file(f"_kinesis/positions/{commit_id}.json") as source:
        return commit_id, source.read()


def commit_amendment(bench, floor: date | None = None) -> None:
    """Commit an amendment as a rewind or the retention of the table does."""
    identity, amendment = bench.client.describe().identity, bench.amendment
    changed = Amendment(
        format=1,
        commit_id=new_id(),
        previous=None if amendment is None else amendment.commit_id,
        batch_id=new_id(),
        at=datetime.now(UTC),
        floor=floor,
        rewound=() if floor else (bench.shard_ids[0],),
    )
    bench.table.snapshot().commit([], identity=identity, amendment=changed)


def fill_then(act: Callable[[], None], times: int = 1):
    """A fill function that calls `act` after result, the first `times` times."""
    left = [times]

    def fill(job: FillJob, ranges: Sequence[ShardRange]) -> FillResult:
        result = fill_as_in_spark(job, ranges)
        if left[0]:
            left[0] -= 1
            act()
        return result

    return fill


# Which rows are added


def test_exactly_the_missing_rows_are_added(bench):
    bench.create()
    bench.put(*range(20))
    bench.run()
    before = sorted(numbers_in(bench))
    bench.lose(3, 4, 17)

    result = bench.replay()

    assert states(result) == {A: (ReplayState.FILLED, 3)}
    assert bench.items == list(range(20))
    assert sorted(numbers_in(bench)) == before
    assert result.version == bench.version


def test_rows_without_a_key_and_unchecked_aggregates_are_restored_unchanged(bench):
    bench.create()
    arn = bench.client.describe().identity.arn
    bench.kinesis.update_stream_mode(StreamARN=arn, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    bench.kinesis.update_stream_record_distribution_strategy(StreamARN=arn, RecordDistributionStrategy="AUTO")
    other_hash_keys = aggregate([UserRecord("k", b"1", "0"), UserRecord("k", b"2", str((1 << 128) - 1))])
    bench.kinesis.put_records(
        StreamName=bench.stream, Records=[{"Data": b"0"}, {"Data": other_hash_keys, "PartitionKey": "k"}]
    )
    bench.run()
    ingested = [(row["data"], row["partition_key"], row["error"]) for row in bench.rows]
    assert sorted(ingested) == [(b"0", None, None), (b"1", "k", None), (b"2", "k", None)]
    bench.lose(0, 2)

    assert states(bench.replay()) == {A: (ReplayState.FILLED, 2)}

    filled = [(row["data"], row["partition_key"], row["error"]) for row in bench.rows]
    assert sorted(filled) == sorted(ingested)


def test_a_replay_without_missing_rows_commits_nothing(bench):
    bench.create()
    bench.put(*range(5))
    bench.run()
    version = bench.version

    result = bench.replay()

    assert states(result) == {A: (ReplayState.WHOLE, 0)}
    assert (result.version, bench.version) == (None, version)


def test_a_replay_does_not_change_the_positions_file(bench):
    bench.create()
    bench.put(*range(5))
    bench.run()
    bench.lose(2)
    before = positions_file(bench)

    bench.replay()

    assert positions_file(bench) == before


def test_added_rows_have_their_own_batch_and_statistics_in_the_amendment(bench):
    bench.create()
    numbers = bench.put(*range(10, 20))
    first = bench.run()
    bench.lose(12, 15)

    result = bench.replay(by="someone")

    amendment = bench.amendment
    assert amendment.batch_id == result.batch_id != first.batch_id
    assert amendment.by == "someone"
    stats = amendment.filled[A]
    assert (stats.rows, stats.bytes) == (2, 4)
    assert (stats.first_sequence_number, stats.last_sequence_number) == (numbers[2], numbers[5])
    outcome = result.outcomes[A]
    assert outcome.stats == stats
    filled = [row for row in bench.rows if row["batch_id"] == result.batch_id]
    assert sorted(int(row["data"]) for row in filled) == [12, 15]


def test_the_checksum_covers_exactly_the_added_rows(bench):
    bench.create()
    bench.put(*range(10))
    total = bench.run().outcomes[A].stats.checksum
    bench.lose(*range(9))
    added = bench.replay().outcomes[A].stats.checksum
    (row,) = (row for row in bench.rows if row["data"] == b"9")
    rest = checksum(type("Row", (), row))
    assert added + rest == total


def test_a_range_of_sequence_numbers_includes_both_ends(bench):
    bench.create()
    numbers = bench.put(*range(10))
    bench.run()
    bench.lose(1, 2, 3, 4, 5, 6, 7)

    result = bench.replay(numbers[3], numbers[5], A)

    assert states(result) == {A: (ReplayState.FILLED, 3)}
    assert bench.items == [0, 3, 4, 5, 8, 9]


def test_a_range_of_times_includes_its_start_but_not_its_end(bench):
    bench.create()
    bench.put(0)
    start = bench.later(minutes=10)
    bench.put(1)
    bench.later(minutes=10)
    bench.put(2)
    end = bench.later(minutes=10)
    bench.put(3)
    bench.run()
    bench.lose(0, 1, 2, 3)

    bench.replay(text(start), text(end))

    assert bench.items == [1, 2]


def test_only_the_given_shards_are_replayed(bench):
    bench.create(2)
    bench.put(0, 1)
    bench.put(2, 3, part=0.9)
    bench.run()
    bench.lose(1, 3)

    result = bench.replay("TRIM_HORIZON", None, B)

    assert states(result) == {B: (ReplayState.FILLED, 1)}
    assert bench.items == [0, 2, 3]


def test_parents_and_children_are_replayed_together(bench):
    bench.create()
    bench.put(0, 1)
    bench.split(A)
    bench.put(2)
    bench.put(3, part=0.9)
    bench.run()
    bench.lose(0, 2, 3)

    result = bench.replay()

    assert states(result) == dict.fromkeys((A, B, C), (ReplayState.FILLED, 1))
    assert bench.items == [0, 1, 2, 3]


def test_a_second_replay_adds_nothing(bench):
    bench.create()
    bench.put(*range(5))
    bench.run()
    bench.lose(2)
    bench.replay()

    assert states(bench.replay()) == {A: (ReplayState.WHOLE, 0)}
    assert bench.items == list(range(5))


def test_rows_in_compacted_files_are_recognized(bench):
    bench.create()
    bench.put(*range(5))
    bench.run()
    bench.put(*range(5, 9))
    bench.run()
    DeltaTable(bench.table.uri).optimize.compact()
    bench.lose(2, 7)

    bench.replay()

    assert bench.items == list(range(9))


def test_added_rows_get_the_arrival_date_of_their_records(bench):
    bench.create()
    bench.put(0, 1)
    bench.run()
    bench.later(hours=20)
    bench.put(2, 3)
    bench.run()
    bench.later(hours=1)
    days = {int(row["data"]): row["arrival_date"] for row in bench.rows}
    bench.lose(1, 2)

    bench.replay()

    assert {int(row["data"]): row["arrival_date"] for row in bench.rows} == days


def test_a_failed_write_ends_readers_that_wait_for_memory(bench, monkeypatch):
    for number in range(len(bench.create(4))):
        bench.put(number, part=number / 4)
    bench.run()
    bench.lose(*range(4))

    def disk_full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def replay():
        with pytest.raises(OSError, match="No space left"):
            bench.replay()
        ended.set()

    ended = threading.Event()
    monkeypatch.setattr(fill_module, "MemoryLimiter", lambda _: MemoryLimiter(1))  # one page at a time
    monkeypatch.setattr(fill_module.DataFileWriter, "write", disk_full)
    threading.Thread(target=replay, daemon=True).start()
    assert ended.wait(20)
    assert bench.items == []


def test_shards_are_looked_up_in_the_table_concurrently(bench, monkeypatch):
    for number in range(len(bench.create(2))):
        bench.put(number, part=number / 2)
    bench.run()
    bench.lose(0, 1)
    together = threading.Barrier(2)
    lacking = fill_module.ExistingKeys.lacking

    def both(*arguments):
        together.wait(5)
        return lacking(*arguments)

    monkeypatch.setattr(fill_module.ExistingKeys, "lacking", both)
    bench.replay()

    assert bench.items == [0, 1]


# Where a replay ends


def test_a_replay_ends_at_the_committed_position(bench):
    bench.create()
    bench.put(*range(10))
    bench.run(max_records=6)
    bench.lose(1)

    bench.replay()

    assert bench.items == [0, 1, 2, 3, 4, 5]
    bench.run()
    assert bench.items == list(range(10))


def test_a_replay_ends_at_a_position_inside_an_aggregate(bench):
    bench.create()
    bench.put(aggregate([UserRecord("k", b"%d" % n, "0") for n in range(6)]))
    bench.run(max_records=4)
    bench.lose(0, 3)

    result = bench.replay()

    assert states(result) == {A: (ReplayState.FILLED, 2)}
    assert bench.items == [0, 1, 2, 3]
    bench.run()
    assert bench.items == [0, 1, 2, 3, 4, 5]


def test_a_replay_of_a_partly_read_aggregate_ends_at_the_position(bench):
    bench.create()
    (number,) = bench.put(aggregate([UserRecord("k", b"%d" % n, "0") for n in range(6)]))
    bench.run(max_records=4)
    bench.lose(1)

    bench.replay(number, number, A)

    assert bench.items == [0, 1, 2, 3]


def test_a_shard_that_no_run_has_read_is_reported_as_unread(bench):
    bench.create()
    bench.put(0)
    bench.plan()  # freezes the start

    assert states(bench.replay()) == {A: (ReplayState.UNREAD, 0)}
    assert bench.items == []


def test_a_range_after_the_position_is_empty(bench):
    bench.create()
    numbers = bench.put(0, 1)
    bench.run(max_records=1)

    assert states(bench.replay(numbers[1], None, A)) == {A: (ReplayState.WHOLE, 0)}
    assert bench.items == [0]


def test_rows_below_the_floor_are_not_added(bench):
    bench.create()
    midnight = datetime.combine(bench.now.date() + timedelta(days=2), datetime.min.time(), UTC)
    bench.later(seconds=(midnight - bench.now).total_seconds() - 3600)  # at any time of day
    bench.put(0)
    bench.later(seconds=3660)
    numbers = bench.put(1)
    bench.run()
    first = next(number for (number, _), item in numbers_in(bench).items() if item == 0)
    bench.lose(0, 1)
    commit_amendment(bench, floor=midnight.date())

    by_number = bench.replay(first, numbers[0], A)

    assert states(by_number) == {A: (ReplayState.FILLED, 1)}
    assert bench.items == [1]
    assert states(bench.replay()) == {A: (ReplayState.WHOLE, 0)}
    assert states(bench.replay(text(midnight - timedelta(hours=9)))) == {A: (ReplayState.WHOLE, 0)}
    assert bench.items == [1]
    assert bench.amendment.floor == midnight.date()


def test_rows_deleted_below_a_floor_are_added_after_it_is_lowered(bench):
    bench.create()
    bench.put(0, 1)
    bench.run()
    bench.lose(0, 1)
    identity = bench.client.describe().identity
    commit_amendment(bench, floor=bench.now.date() + timedelta(days=365))
    bench.replay()
    assert bench.items == []
    lower_floor(bench.table, identity, bench.now.date() - timedelta(days=90), bench.now, by="ada")

    assert states(bench.replay()) == {A: (ReplayState.FILLED, 2)}
    assert bench.items == [0, 1]
    assert bench.amendment.floor == bench.now.date() - timedelta(days=90)


# Concurrent replays, runs and amendments


def test_concurrent_replays_add_no_duplicates(bench):
    bench.create()
    bench.put(*range(10))
    bench.run()
    bench.lose(2, 3, 8)
    both_filled = threading.Barrier(2)
    results = []

    def one() -> None:
        fill = fill_then(lambda: both_filled.wait(30))
        results.append(bench.replay(fill=fill))

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(result.outcomes[A].rows for result in results) == [0, 3]
    assert bench.items == list(range(10))


def test_a_run_that_commits_during_a_replay_does_not_restart_it(bench):
    bench.create()
    bench.put(*range(5))
    bench.run()
    bench.lose(2)
    bench.put(5, 6)
    ran = []
    tries = []

    def meanwhile() -> None:
        tries.append(1)
        ran.append(bench.run())

    result = bench.replay(fill=fill_then(meanwhile, times=9))

    assert len(tries) == 1
    assert ran[0].outcomes[A].rows == 2
    assert not ran[0].errors
    assert states(result) == {A: (ReplayState.FILLED, 1)}
    assert bench.items == list(range(7))


def test_a_run_planned_before_a_replay_commits_after_it(bench):
    bench.create()
    bench.put(*range(5))
    bench.run()
    bench.lose(2)
    bench.put(5)
    plan = bench.plan()

    bench.replay()

    assert not execute_run(land_group, bench.client, bench.table, plan).errors
    assert bench.items == list(range(6))


def test_a_replay_restarts_after_a_concurrent_amendment(bench):
    bench.create()
    bench.put(*range(5))
    bench.run()
    bench.lose(2)
    batches = []

    def fill(job, ranges):
        batches.append(job.landing.batch_id)
        if len(batches) == 1:
            commit_amendment(bench)
        return fill_as_in_spark(job, ranges)

    result = bench.replay(fill=fill)

    assert len(set(batches)) == 2
    assert result.batch_id == batches[-1] == bench.amendment.batch_id
    assert bench.items == list(range(5))


def test_an_amendment_immediately_before_the_commit_restarts_the_replay(bench, monkeypatch):
    bench.create()
    bench.put(*range(5))
    bench.run()
    bench.lose(2)
    commit = table_module.TableSnapshot.commit
    overtaken = []

    def overtake(self, files, **rest):
        if files and not overtaken:
            overtaken.append(True)
            commit_amendment(bench)
        commit(self, files, **rest)

    monkeypatch.setattr(table_module.TableSnapshot, "commit", overtake)
    bench.replay()

    assert overtaken
    assert bench.items == list(range(5))
    assert bench.amendment.previous is not None


def test_a_floor_raised_below_the_added_rows_does_not_restart_the_replay(bench):
    bench.create()
    bench.put(*range(5))
    bench.run()
    bench.lose(2)
    floor = (bench.now - timedelta(days=30)).date()
    batches = []

    def fill(job, ranges):
        batches.append(job.landing.batch_id)
        commit_amendment(bench, floor)
        return fill_as_in_spark(job, ranges)

    bench.replay(fill=fill)

    assert len(batches) == 1
    assert (bench.amendment.floor, bench.amendment.batch_id) == (floor, batches[0])
    assert bench.items == list(range(5))


def test_a_floor_raised_above_the_added_rows_restarts_the_replay_without_them(bench):
    bench.create()
    bench.put(*range(5))
    bench.run()
    bench.lose(2)
    floor = (bench.now + timedelta(days=1)).date()
    batches = []

    def fill(job, ranges):
        batches.append(job.landing.batch_id)
        if len(batches) == 1:
            commit_amendment(bench, floor)
        return fill_as_in_spark(job, ranges)

    bench.replay(fill=fill)

    assert bench.items == [0, 1, 3, 4]


def test_a_replay_fails_if_each_try_is_overtaken_by_an_amendment(bench):
    bench.create()
    bench.put(*range(5))
    bench.run()
    bench.lose(2)

    with pytest.raises(PastChanged, match="Nothing of this batch was committed"):
        bench.replay(fill=fill_then(partial(commit_amendment, bench), times=100))
    assert bench.items == [0, 1, 3, 4]


@pytest.mark.parametrize("others", [False, True])
def test_a_commit_whose_response_is_lost_is_found(bench, monkeypatch, others):
    bench.create()
    bench.put(*range(5))
    bench.run()
    bench.lose(2)
    commit = table_module.TableSnapshot.commit
    lost = []

    def lose_response(self, files, **rest):
        commit(self, files, **rest)
        if files and not lost:
            lost.append(True)
            if others:
                commit_amendment(bench)
            raise OSError("connection reset")

    monkeypatch.setattr(table_module.TableSnapshot, "commit", lose_response)
    result = bench.replay()

    assert states(result) == {A: (ReplayState.FILLED, 1)}
    assert result.version is not None
    assert bench.items == list(range(5))


def test_a_commit_that_always_fails_is_reported(bench, monkeypatch):
    bench.create()
    bench.put(*range(5))
    bench.run()
    bench.lose(2)

    def refused(*_, **__):
        raise OSError("connection refused")

    monkeypatch.setattr(table_module.TableSnapshot, "commit", refused)
    with pytest.raises(CommitFailed):
        bench.replay()
    assert bench.items == [0, 1, 3, 4]


def test_a_replay_fails_if_the_stream_is_recreated_during_it(bench):
    bench.create()
    bench.put(*range(5))
    bench.run()
    bench.lose(2)

    def recreate() -> None:
        bench.kinesis.delete_stream(StreamName=bench.stream)
        bench.later(minutes=1)
        bench.create()

    with pytest.raises(StreamRecreated):
        bench.replay(fill=fill_then(recreate))
    assert bench.items == [0, 1, 3, 4]


# Replays that run out of time


@pytest.fixture
def hours(bench, faults):
    """One record per response; each takes `each` hours by all clocks, as set by the test."""
    clock, hours = ShiftedClock(), SimpleNamespace(each=0.0)
    bench.set_machine_clock(clock)

    def respond_late(*_):
        clock.advance(hours.each)

    faults.page_size(1)
    faults.answer("GetRecords", respond_late)
    hours.pass_by = clock.advance
    return hours


def test_an_unfinished_shard_is_reported_with_the_number_to_continue_from(bench, hours):
    bench.create()
    numbers = bench.put(*range(6))
    bench.run()
    bench.lose(1, 4)
    hours.each = 2.5

    result = bench.replay()

    assert states(result) == {A: (ReplayState.FAILED, 1)}
    assert isinstance(result.errors[A], ReplayUnfinished)
    assert f"replay this shard from {numbers[2]}" in str(result.errors[A])
    assert bench.items == [0, 1, 2, 3, 5]
    assert states(bench.replay(numbers[2], None, A)) == {A: (ReplayState.FAILED, 1)}
    assert states(bench.replay(numbers[4], None, A)) == {A: (ReplayState.WHOLE, 0)}
    assert bench.items == [0, 1, 2, 3, 4, 5]


def test_a_task_that_starts_late_has_the_same_deadline(bench, hours):
    bench.create()
    bench.put(*range(40))
    bench.run()
    bench.lose(1, 30)
    hours.each = 0.4

    def fill(job: FillJob, ranges: Sequence[ShardRange]) -> FillResult:
        hours.pass_by(3)  # the task waits for a core
        return fill_as_in_spark(job, ranges)

    assert states(bench.replay(fill=fill)) == {A: (ReplayState.FAILED, 1)}


def test_a_task_that_starts_after_the_deadline_reads_nothing_and_reports_it(bench, hours, faults):
    bench.create()
    first, *_ = bench.put(0)
    bench.run()
    bench.lose(0)

    def fill(job: FillJob, ranges: Sequence[ShardRange]) -> FillResult:
        hours.pass_by(9)
        return fill_as_in_spark(job, ranges)

    before = faults.count("GetRecords")
    (error,) = bench.replay(first, None, A, fill=fill).errors.values()
    assert isinstance(error, ReplayUnfinished)
    assert error.sentence.startswith("the range was not read completely")
    assert faults.count("GetRecords") == before


def test_lost_data_is_reported_even_if_the_replay_is_unfinished(bench, hours):
    """A replay that continues from the reported number does not read the lost range again."""
    bench.create()
    start = bench.now
    first, *_ = bench.put(0)
    bench.run()
    bench.later(hours=23)
    bench.put(*range(1, 6))
    bench.run()
    bench.later(hours=2)
    hours.each = 2.5
    for reason, result in (("keeps 24 h", bench.replay(text(start))), (first, bench.replay(first, None, A))):
        assert isinstance(result.errors[A], ReplayUnfinished)
        assert reason in str(result.errors[A])
        assert "within 7:00:00" in str(result.errors[A])


# Data and shards that can no longer be read


def test_expired_records_of_a_time_range_are_reported_as_lost(bench):
    bench.create()
    start = bench.now
    bench.put(0)
    bench.run()
    bench.later(hours=23)
    bench.put(1)
    bench.run()
    bench.lose(0, 1)
    bench.later(hours=2)

    result = bench.replay(text(start))

    assert states(result) == {A: (ReplayState.FAILED, 1)}
    assert isinstance(result.errors[A], DataLost)
    assert "keeps 24 h" in str(result.errors[A])
    assert bench.items == [1]


def test_an_expired_record_of_a_sequence_number_range_is_reported(bench):
    bench.create()
    (first,) = bench.put(0)
    bench.run()
    bench.later(hours=23)
    (second,) = bench.put(1)
    bench.run()
    bench.lose(0, 1)
    bench.later(hours=2)

    result = bench.replay(first, None, A)

    assert states(result) == {A: (ReplayState.FAILED, 1)}
    assert second in str(result.errors[A])
    assert bench.items == [1]


def test_trim_horizon_does_not_require_expired_records(bench):
    bench.create()
    bench.put(0)
    bench.run()
    bench.later(hours=23)
    bench.put(1)
    bench.run()
    bench.lose(1)
    bench.later(hours=2)

    assert states(bench.replay()) == {A: (ReplayState.FILLED, 1)}


def test_a_failing_shard_does_not_fail_the_others(bench, faults):
    bench.create(2)
    bench.put(0, 1)
    bench.put(2, 3, part=0.9)
    bench.run()
    bench.lose(1, 3)
    faults.fail(status=400, code="AccessDeniedException", shard_id=A)

    result = bench.replay()

    assert states(result) == {A: (ReplayState.FAILED, 0), B: (ReplayState.FILLED, 1)}
    assert isinstance(result.errors[A], ReadFailed)
    assert bench.items == [0, 2, 3]


def test_a_shard_no_longer_listed_is_an_error_only_if_the_range_may_include_it(bench):
    bench.create()
    start = bench.now
    bench.put(0)
    bench.split(A)
    bench.run()
    bench.later(hours=30)
    bench.put(1)
    bench.run()

    recent = bench.replay(text(bench.now - timedelta(hours=1)))
    assert recent.outcomes[A].state is ReplayState.GONE
    assert bench.replay().outcomes[A].state is ReplayState.GONE
    assert isinstance(bench.replay(text(start)).errors[A], ShardVanished)


def test_a_list_without_a_known_shard_is_requested_again(bench, faults):
    bench.create()
    bench.put(1, 2)
    bench.later(seconds=5)
    bench.run()
    bench.split(A)
    bench.run()
    bench.lose(1)
    faults.answer("ListShards", lambda _, answer: answer.but(Shards=answer.members["Shards"][1:]), times=1)
    outcome = bench.replay().outcomes[A]
    assert (outcome.state, outcome.rows) == (ReplayState.FILLED, 1)
    assert bench.items == [1, 2]


def without(shard_id: str):
    """A fault that removes a shard from each list."""
    return lambda _, answer: answer.but(
        Shards=[shard for shard in answer.members["Shards"] if shard["ShardId"] != shard_id]
    )


def test_only_a_closed_shard_missing_from_each_list_fails(bench, faults):
    bench.create(2)
    start = bench.now
    bench.put(1)
    bench.put(2, part=0.9)
    bench.split(A, 0.25)
    bench.run()
    bench.lose(1, 2)
    bench.later(hours=23)
    faults.answer("ListShards", without(A))
    for rows, replay_from in ((1, "TRIM_HORIZON"), (0, text(start))):
        result = bench.replay(replay_from)
        assert list(result.errors) == [A]
        assert isinstance(result.errors[A], ShardVanished)
        assert "left it out each time" in str(result.errors[A])
        assert result.outcomes[B].rows == rows
    assert bench.items == [2]
    faults.clear()
    assert states(bench.replay())[A] == (ReplayState.FILLED, 1)
    assert bench.items == [1, 2]


@pytest.mark.parametrize("hours", [1, 47])
def test_only_an_open_shard_missing_from_each_list_fails(bench, faults, hours):
    bench.create(2)
    bench.put(1)
    bench.put(2, part=0.9)
    bench.run()
    bench.kinesis.increase_stream_retention_period(StreamName=bench.stream, RetentionPeriodHours=48)
    bench.lose(1, 2)
    bench.later(hours=hours)
    faults.answer("ListShards", without(A))
    result = bench.replay()
    assert states(result)[B] == (ReplayState.FILLED, 1)
    assert isinstance(result.errors[A], ShardVanished)
    assert bench.items == [2]


def test_an_unread_shard_missing_from_each_list_does_not_delay_the_others(bench, faults):
    bench.create(2)
    bench.put(1)
    bench.run(max_records=1)
    bench.lose(1)
    faults.answer("ListShards", without(B))
    assert states(bench.replay()) == {A: (ReplayState.FILLED, 1), B: (ReplayState.UNREAD, 0)}


def test_incomplete_lists_do_not_make_a_shard_unknown(bench, faults):
    bench.create(2)
    bench.put(1)
    bench.run()
    faults.answer("ListShards", without(B))
    with pytest.raises(ShardListIncomplete):
        bench.replay("TRIM_HORIZON", None, C)


def test_a_shard_that_expired_early_after_a_lower_retention_is_gone(bench):
    bench.create()
    bench.kinesis.increase_stream_retention_period(StreamName=bench.stream, RetentionPeriodHours=48)
    bench.put(0)
    bench.split(A)
    bench.run()
    bench.run()
    bench.kinesis.decrease_stream_retention_period(StreamName=bench.stream, RetentionPeriodHours=24)
    bench.later(hours=30)
    assert bench.replay().outcomes[A].state is ReplayState.GONE


# Invalid arguments


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("", None),
        ("LATEST", None),
        ("2026-01-31T12:00:00", None),
        ("soon", None),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
        ("2026-01-31T12:00:00Z", "later"),
        ("20", "3"),
        ("007", None),
    ],
)
def test_an_invalid_range_is_refused(start, end):
    with pytest.raises(InvalidInput):
        ReplayWindow.of(start, end)


def test_a_sequence_number_requires_exactly_one_shard(bench):
    bench.create(2)
    numbers = bench.put(0)
    bench.run()
    for start, end in ((numbers[0], None), ("TRIM_HORIZON", numbers[0])):
        with pytest.raises(InvalidInput, match="name one shard"):
            bench.replay(start, end)


def test_a_sequence_number_of_another_shard_is_refused_before_any_read(bench):
    bench.create(2)
    numbers = bench.put(0, part=0.9)
    bench.put(1)
    bench.run()
    with pytest.raises(InvalidInput, match="rejects"):
        bench.replay(numbers[0], None, A)


def test_an_unknown_shard_is_refused(bench):
    bench.create()
    bench.put(0)
    bench.run()
    with pytest.raises(InvalidInput, match="has no shard 'nowhere'"):
        bench.replay("TRIM_HORIZON", None, A, "nowhere")


def test_a_start_in_the_future_is_refused(bench):
    bench.create()
    bench.put(0)
    bench.run()
    with pytest.raises(InvalidInput, match=r"later than the service.s clock"):
        bench.replay(text(bench.now + timedelta(hours=1)))


# Positions


def test_a_replay_ends_at_a_position_that_is_a_time(bench):
    bench.create()
    bench.put(0)
    time = bench.later(minutes=10)
    bench.put(1)
    bench.run()
    bench.lose(0, 1)
    current = bench.positions
    moved = msgspec.structs.replace(current.shards[A], position=Position.at_timestamp(time))
    bench.table.snapshot().commit(
        [],
        identity=current.identity,
        positions=msgspec.structs.replace(
            current, commit_id=new_id(), previous=current.commit_id, shards={A: moved}
        ),
    )

    bench.replay()

    assert bench.items == [0]


def test_a_position_between_two_milliseconds_is_rounded_down(bench):
    """Arrivals are whole milliseconds. A run starts at the earlier one, so a replay must end there."""
    bench.create()
    bench.put(1)
    bench.later(seconds=0.25)
    bench.put(2)
    start = (bench.now + timedelta(microseconds=400)).isoformat()
    bench.plan(start=f"AT_TIMESTAMP:{start}")
    bench.replay()
    bench.run()
    assert bench.items == [1, 2]


def test_no_page_after_the_position_is_requested(bench, faults):
    bench.create()
    bench.put(*range(3))
    bench.run()
    bench.lose(1)
    bench.put(3, 4)
    faults.clear()
    faults.page_size(3)

    bench.replay()

    assert bench.items == [0, 1, 2]
    assert faults.count("GetRecords") == 1


# Concurrent restores of the table


def test_a_replay_restarts_if_a_restore_brings_back_the_missing_rows(bench):
    """The table is restored to a version before the loss, while the rows are added."""
    bench.create()
    bench.put(*range(5))
    bench.run()
    intact = bench.version
    bench.lose(2, 3)

    result = bench.replay(fill=fill_then(lambda: DeltaTable(bench.table.uri).restore(intact)))

    assert bench.items == [0, 1, 2, 3, 4]
    assert states(result) == {A: (ReplayState.WHOLE, 0)}


def test_a_replay_restarts_after_a_restore_during_its_commit(bench, monkeypatch):
    bench.create()
    bench.put(*range(5))
    bench.run()
    intact = bench.version
    bench.lose(2, 3)
    original_commit = table_module.TableSnapshot.commit

    def restore_first(snapshot, files, **rest):
        monkeypatch.setattr(table_module.TableSnapshot, "commit", original_commit)
        DeltaTable(bench.table.uri).restore(intact)
        original_commit(snapshot, files, **rest)

    monkeypatch.setattr(table_module.TableSnapshot, "commit", restore_first)
    bench.replay()

    assert bench.items == [0, 1, 2, 3, 4]


def test_rows_deleted_by_a_concurrent_restore_are_added_too(bench):
    bench.create()
    bench.put(*range(3))
    bench.run()
    before = bench.version
    bench.put(*range(3, 6))
    bench.run()
    bench.lose(0)

    bench.replay(fill=fill_then(lambda: DeltaTable(bench.table.uri).restore(before)))

    assert bench.items == [0, 1, 2, 3, 4, 5]


def test_a_replay_restarts_after_a_concurrent_restore_that_was_adopted(bench):
    bench.create()
    bench.put(*range(5))
    bench.run()
    intact = bench.version
    bench.lose(2, 3)

    def restored_and_accepted():
        DeltaTable(bench.table.uri).restore(intact)
        adopt(bench.client, bench.table, by="ann", apply=True)
        bench.put(5)
        bench.run()

    bench.replay(fill=fill_then(restored_and_accepted))

    assert bench.items == [0, 1, 2, 3, 4, 5]


def test_a_replay_does_not_read_log_entries_that_concurrent_runs_have_checked(bench, monkeypatch):
    bench.create()
    bench.put(*range(5))
    bench.run()
    bench.lose(2, 3)
    read = []
    entry = log_entries.read_entry

    def counted(filesystem, version):
        read.append(version)
        return entry(filesystem, version)

    def runs():
        for item in range(5, 9):
            bench.put(item)
            bench.run()
        monkeypatch.setattr(rewrites, "read_entry", counted)

    bench.replay(fill=fill_then(runs))

    assert bench.items == list(range(9))
    assert read == [bench.version - 1]


def test_a_replay_restarts_if_the_log_is_cleaned_up_during_it(bench):
    bench.create()
    bench.put(*range(5))
    bench.run()
    intact = bench.version
    bench.lose(2, 3)

    def restored_and_cleaned_up():
        table = DeltaTable(bench.table.uri)
        table.restore(intact)
        table.create_checkpoint()
        for entry in Path(bench.table.uri, "_delta_log").glob("0*[0-9].json"):
            entry.unlink()

    bench.replay(fill=fill_then(restored_and_cleaned_up))

    assert bench.items == [0, 1, 2, 3, 4]


# Gaps


def skipped(bench) -> str:
    """Skip items 2 and 3 with a seek; return the first sequence number after the gap."""
    bench.create()
    bench.put(0, 1)
    bench.run()
    bench.later(seconds=5)
    _, _, fourth = bench.put(2, 3, 4)
    seek(
        bench.client,
        bench.table,
        to=Position.parse(f"AT_SEQUENCE_NUMBER:{fourth}"),
        shard_ids=None,
        by="ann",
        apply=True,
    )
    bench.later(seconds=5)
    bench.put(5)
    bench.run()
    assert bench.items == [0, 1, 4, 5]
    return fourth


def open_gaps(bench) -> list[str | None]:
    """The next sequence numbers of the gaps of the shard that are not cleared."""
    amendment = bench.amendment
    return [
        gap.next_sequence_number
        for gap in bench.at(A).gaps
        if amendment is None or not amendment.has_cleared(A, gap)
    ]


def test_a_completely_replayed_gap_is_cleared_in_an_amendment(bench):
    fourth = skipped(bench)
    assert open_gaps(bench) == [fourth]
    positions = bench.positions

    result = bench.replay(by="ann")

    assert result.outcomes[A].gaps_filled == 1
    assert bench.items == [0, 1, 2, 3, 4, 5]
    assert open_gaps(bench) == []
    assert bench.positions == positions
    assert (bench.amendment.by, bench.amendment.filled.keys()) == ("ann", {A})


def test_a_gap_whose_rows_exist_already_is_cleared_without_adding_rows(bench):
    fourth = skipped(bench)
    (gap,) = bench.at(A).gaps
    bench.replay(text(gap.until), None, A)
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
        stats=RangeStats(
            start=Position.parse("TRIM_HORIZON"),
            through=Position.after("9"),
            first_sequence_number=None,
            last_sequence_number=None,
            rows=0,
            bytes=0,
            checksum=0,
        ),
        end=RangeEnd.BOUND,
        read=5,
        first_read="5",
        error=None,
    )
    for not_before, filled in ((arrived, (ClearedGap.of(gap),)), (arrived + timedelta(seconds=1), ())):
        assert filled_gaps([gap], result, not_before=not_before, up_to_position=False) == filled


@pytest.mark.parametrize("replayed", ["starts inside", "ends inside"])
def test_a_partly_read_gap_is_not_cleared(bench, replayed):
    fourth = skipped(bench)
    (gap,) = bench.at(A).gaps
    if replayed == "ends inside":
        bench.replay("TRIM_HORIZON", str(int(gap.after.sequence_number) + 1), A)
    else:
        bench.replay(text(gap.until), None, A)
    assert open_gaps(bench) == [fourth]


def test_a_gap_whose_records_may_have_expired_is_not_cleared(bench):
    fourth = skipped(bench)
    bench.later(hours=23, minutes=59, seconds=55)  # 0 and 1 have expired, the skipped items have not
    bench.replay()
    assert open_gaps(bench) == [fourth]


def test_a_cleared_gap_is_open_again_after_a_seek_back_into_it(bench):
    fourth = skipped(bench)
    bench.replay()
    numbers = sorted(number for number, _ in numbers_in(bench))
    seek(
        bench.client,
        bench.table,
        to=Position.parse(f"AT_SEQUENCE_NUMBER:{numbers[3]}"),
        shard_ids=None,
        by="ann",
        apply=True,
    )
    assert open_gaps(bench) == [numbers[3]]
    assert fourth not in open_gaps(bench)


def test_a_cleared_gap_before_the_target_of_a_seek_stays_cleared(bench):
    fourth = skipped(bench)
    bench.replay()
    seek(
        bench.client,
        bench.table,
        to=Position.parse(f"AFTER_SEQUENCE_NUMBER:{fourth}"),
        shard_ids=None,
        by="ann",
        apply=True,
    )
    assert (len(bench.at(A).gaps), open_gaps(bench)) == (1, [])
