"""The start positions of the first run, which later runs never change."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from kinesis_assets.errors import CallFailed, InvalidInput, TableMissing
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.ingest.plan import ReadPolicy
from kinesis_assets.ingest.preview import Effect, preview_run
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.start_positions import StartPositions
from kinesis_assets.testing import UserRecord, aggregate

SHARD = "shardId-000000000000"
BEGINNING = Position(PositionKind.TRIM_HORIZON)


def at_time(moment):
    return f"AT_TIMESTAMP:{moment.isoformat()}"


def aggregate_of(*items):
    """Aggregate these numbers."""
    return aggregate(UserRecord("k", str(item).encode()) for item in items)


# One start for the whole stream


def test_trim_horizon_lands_all_available_records(bench):
    bench.create(2)
    bench.put(1, 2)
    bench.put(3, part=0.5)
    bench.run(start="TRIM_HORIZON")
    assert bench.items == [1, 2, 3]


def test_latest_lands_only_new_records(bench):
    bench.create(2)
    bench.put(1)
    bench.put(2, part=0.5)
    bench.later(seconds=5)
    bench.run(start="LATEST")
    assert bench.items == []
    bench.later(seconds=5)
    bench.put(3)
    bench.put(4, part=0.5)
    bench.run(start="LATEST")
    assert bench.items == [3, 4]


def test_a_time_lands_records_that_arrived_at_or_after_it_in_every_shard(bench):
    bench.create(2)
    moments = []
    for item in range(4):
        bench.later(seconds=0.25)
        moments.append(bench.now)
        bench.put(item, part=item % 2 / 2)
    bench.run(start=at_time(moments[2]))
    assert bench.items == [2, 3]


def test_at_sequence_number_is_inclusive(bench):
    bench.create()
    _, second, _ = bench.put(1, 2, 3)
    bench.run(start=f"AT_SEQUENCE_NUMBER:{second}")
    assert bench.items == [2, 3]


def test_after_sequence_number_is_exclusive(bench):
    bench.create()
    _, second, _ = bench.put(1, 2, 3)
    bench.run(start=f"AFTER_SEQUENCE_NUMBER:{second}")
    assert bench.items == [3]


@pytest.mark.parametrize(("sub", "landed"), [(0, [2, 3, 4]), (1, [3, 4]), (2, [4]), (99, [4])])
def test_a_start_after_a_sub_sequence_number_is_inside_the_aggregate(bench, sub, landed):
    bench.create()
    (number,) = bench.put(aggregate_of(1, 2, 3))
    bench.put(4)
    bench.run(start=f"AFTER_SEQUENCE_NUMBER:{number}:{sub}")
    assert bench.items == landed


@pytest.mark.parametrize("rest", [(2, 3), (2, aggregate_of(3))], ids=["plain_records", "with_an_aggregate"])
def test_a_start_after_sub_sequence_number_0_of_a_plain_record_is_after_the_record(bench, rest):
    bench.create()
    number, *_ = bench.put(1, *rest)
    bench.run(start=f"AFTER_SEQUENCE_NUMBER:{number}:0")
    assert bench.items == [2, 3]


# Shards that another consumer has read to their end


@pytest.fixture
def split(bench):
    """A closed shard whose records have expired, the number of its last record, and its children."""
    (parent,) = bench.create()
    *_, last = bench.put(1, 2)
    bench.later(hours=30)
    children = bench.split(parent)
    bench.put(3)
    bench.later(hours=1)
    return parent, last, children


def end_of(bench, shard_id):
    """Return the EndingSequenceNumber of a closed shard."""
    (shard,) = (each for each in bench._shards if each["ShardId"] == shard_id)
    return shard["SequenceNumberRange"]["EndingSequenceNumber"]


@pytest.mark.parametrize(
    "start",
    [
        "SHARD_END",
        "shard_end",
        "AFTER_SEQUENCE_NUMBER:{}",
        "AFTER_SEQUENCE_NUMBER:{}:0",
        "AT_SEQUENCE_NUMBER:{}",
    ],
)
def test_a_shard_that_was_read_to_its_end_is_finished_and_its_children_are_read(bench, split, start):
    parent, _, _ = split
    result = bench.run(start={parent: start.format(end_of(bench, parent))})
    assert result.errors == {}
    assert result.outcomes[parent].state is ShardState.FINISHED
    assert bench.at(parent).finished
    assert bench.items == [3]


def test_records_of_a_shard_that_another_consumer_has_read_can_be_added_by_a_replay(bench):
    (parent,) = bench.create()
    bench.put(1, 2)
    bench.split(parent)
    bench.run(start={parent: "SHARD_END"})
    assert bench.items == []
    assert bench.replay().errors == {}
    assert bench.items == [1, 2]


def test_a_number_before_the_end_is_not_the_end(bench, split):
    parent, last, _ = split
    result = bench.run(start={parent: f"AFTER_SEQUENCE_NUMBER:{last}"})
    assert not bench.at(parent).finished
    assert "may have expired unread" in str(result.errors[parent])


def test_an_open_shard_cannot_have_been_read_to_its_end(bench):
    bench.create()
    with pytest.raises(InvalidInput, match=f"{SHARD}: start SHARD_END .* it is open"):
        bench.plan(start={SHARD: "SHARD_END"})
    with pytest.raises(TableMissing):
        bench.table.snapshot()


def test_the_end_of_a_shard_is_not_recorded_on_the_word_of_one_list(bench, faults):
    bench.create()

    def with_a_child(_, response):
        (shard,) = response.members["Shards"]
        child = shard | {"ShardId": "shardId-000000000001", "ParentShardId": SHARD}
        ends = shard["SequenceNumberRange"] | {"EndingSequenceNumber": "9" * 56}
        return response.but(Shards=[shard | {"SequenceNumberRange": ends}, child])

    faults.answer("ListShards", with_a_child, times=1)
    with pytest.raises(InvalidInput, match="it is open"):  # as the next two lists show
        bench.plan([SHARD], start={SHARD: "SHARD_END"})
    with pytest.raises(TableMissing):
        bench.table.snapshot()


def test_a_preview_shows_that_a_shard_was_read_to_its_end(bench, split):
    parent, _, children = split
    policy = ReadPolicy(StartPositions.of({parent: "SHARD_END"}))
    shown = {each.shard_id: each.effect for each in preview_run(bench.client, bench.table, policy).shards}
    assert shown == {parent: Effect.FINISHED, **dict.fromkeys(children, Effect.STARTS)}


# One start per shard


@pytest.mark.parametrize("source", ["map", "JSON text", "JSON file", "YAML file"])
def test_each_shard_can_have_its_own_start(bench, tmp_path, source):
    first, second, third, fourth = bench.create(4)
    bench.put(1, 2, part=0)
    number, _ = bench.put(3, 4, part=0.25)
    (inside,) = bench.put(aggregate_of(5, 6), part=0.5)
    bench.put(7, part=0.75)
    bench.later(seconds=5)
    starts = {
        first: "TRIM_HORIZON",
        second: f"AFTER_SEQUENCE_NUMBER:{number}",
        third: f"AFTER_SEQUENCE_NUMBER:{inside}:0",
        "default": "LATEST",
    }
    file = tmp_path / "starts"
    if source == "YAML file":
        file.write_text("".join(f"{shard_id}: {start}\n" for shard_id, start in starts.items()))
    else:
        file.write_text(json.dumps(starts))
    start = {"map": starts, "JSON text": json.dumps(starts)}.get(source, f"file://{file}")
    bench.run(start=start)
    assert bench.items == [1, 2, 4, 6]
    bench.put(8, part=0.75)
    bench.run(start=start)
    assert bench.items == [1, 2, 4, 6, 8]
    assert bench.at(fourth).position.kind is PositionKind.AFTER_SEQUENCE_NUMBER


def test_shards_closed_before_a_latest_start_are_finished_without_rows(bench):
    (parent,) = bench.create()
    bench.put(1)
    bench.later(seconds=5)
    bench.split(parent)
    bench.put(2)
    bench.later(seconds=5)
    result = bench.run(start="LATEST")
    assert (result.outcomes[parent].state, result.errors) == (ShardState.FINISHED, {})
    bench.put(3)
    bench.run()
    assert bench.items == [3]


# Invalid starts


def assert_refused(bench, start, match, error=InvalidInput):
    """Assert that a start is refused with a one-line error, and that no table is created."""
    with pytest.raises(error, match=match) as caught:
        bench.plan(start=start)
    assert "\n" not in str(caught.value)
    with pytest.raises(TableMissing):
        bench.table.snapshot()
    assert not Path(bench.table.uri).exists()


def test_a_start_for_an_unknown_shard_is_refused(bench):
    bench.create(2)
    assert_refused(bench, {"shardId-000000000007": "LATEST"}, f"{bench.stream}.*shardId-000000000007")


def test_a_sequence_number_for_several_shards_is_refused(bench):
    bench.create(2)
    (number,) = bench.put(1)
    assert_refused(
        bench, f"AT_SEQUENCE_NUMBER:{number}", f"{bench.stream}.*belongs to one shard, but applies to 2"
    )


def test_a_time_in_the_future_is_refused(bench):
    bench.create()
    assert_refused(bench, at_time(bench.now + timedelta(seconds=1)), f"{bench.stream}.*not in the past")


@pytest.mark.parametrize("kind", ["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"])
def test_a_sequence_number_of_another_shard_is_refused(bench, kind):
    first, second = bench.create(2)
    bench.put(1)
    (of_second,) = bench.put(2, part=0.5)
    starts = {second: f"{kind}:{of_second}", first: f"{kind}:{of_second}"}
    assert_refused(bench, starts, f"{first}: Kinesis rejected {kind}:{of_second}.*InvalidArgumentException")


def test_an_unknown_sequence_number_is_refused(bench):
    bench.create()
    bench.put(1)
    assert_refused(bench, "AT_SEQUENCE_NUMBER:12345", "Kinesis rejected AT_SEQUENCE_NUMBER:12345")


def test_a_sub_sequence_number_of_another_shard_is_refused(bench):
    first, _ = bench.create(2)
    (of_second,) = bench.put(aggregate_of(1, 2), part=0.5)
    assert_refused(bench, {first: f"AFTER_SEQUENCE_NUMBER:{of_second}:1"}, "InvalidArgumentException")


def test_a_start_that_cannot_be_validated_fails_with_the_error_of_the_call(bench, faults):
    bench.create()
    (number,) = bench.put(1)
    faults.fail("GetShardIterator", status=400, code="AccessDeniedException")
    assert_refused(bench, f"AT_SEQUENCE_NUMBER:{number}", "AccessDenied", CallFailed)


def test_a_file_with_a_list_is_refused(bench, tmp_path):
    bench.create()
    file = tmp_path / "starts.yaml"
    file.write_text("- LATEST\n")
    assert_refused(bench, f"file://{file}", "starts.yaml must contain a position or a map")


def test_a_missing_file_is_refused(bench, tmp_path):
    bench.create()
    assert_refused(bench, f"file://{tmp_path}/none.yaml", "none.yaml cannot be read")


# Starts are stored by the first plan


@pytest.mark.parametrize("start", ["LATEST", "AT_TIMESTAMP"])
def test_the_start_of_an_aborted_first_run_is_kept(bench, start):
    bench.create(2)
    bench.put(1)
    bench.put(2, part=0.5)
    bench.later(seconds=5)
    start = "LATEST" if start == "LATEST" else at_time(bench.now)
    bench.plan(start=start)  # and then dies
    bench.later(hours=2)
    assert [outcome.rows for outcome in bench.run(start=start).outcomes.values()] == [0, 0]
    bench.later(hours=2)
    bench.put(3)
    bench.put(4, part=0.5)
    bench.later(hours=2)
    bench.run(start=start)
    assert bench.items == [3, 4]


def test_a_shard_that_is_read_later_starts_at_the_stored_start(bench):
    first, second = bench.create(2)
    bench.put(1)
    bench.put(2, part=0.5)
    bench.later(seconds=5)
    start = at_time(bench.now)
    bench.run([first], start=start)
    bench.put(3)
    bench.put(4, part=0.5)
    bench.later(hours=20)
    bench.put(5, part=0.5)
    bench.run([second], start=start)
    assert bench.items == [4, 5]
    bench.run([first], start=start)
    assert bench.items == [3, 4, 5]


@pytest.mark.parametrize("start", ["LATEST", "TRIM_HORIZON", {"default": "LATEST", SHARD: "TRIM_HORIZON"}])
def test_a_start_that_is_changed_later_is_ignored(bench, start):
    bench.create(2)
    bench.put(1, 2)
    bench.later(seconds=5)
    bench.run(max_records=1)
    bench.later(seconds=5)
    bench.run(start=start)
    bench.run(start=start)
    assert bench.items == [1, 2]


def test_a_start_for_an_expired_shard_is_accepted_by_later_runs(bench):
    (parent,) = bench.create()
    (number,) = bench.put(1)
    start = {parent: f"AT_SEQUENCE_NUMBER:{number}"}
    bench.run(start=start)
    bench.split(parent)
    bench.run(start=start)
    for _ in range(2):
        bench.later(hours=20)
        assert bench.run(start=start).errors == {}
    assert parent not in bench.shard_ids


# Inclusive and exclusive


def test_an_explicit_start_on_an_empty_page_stays_inclusive(bench, faults):
    (shard_id,) = bench.create()
    _, _, third, _ = bench.put(1, 2, 3, 4)
    start = Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=third)
    faults.empty_page(behind_ms=0, times=1)
    bench.run(start=str(start))
    assert (bench.items, bench.at(shard_id).position) == ([], start)
    bench.run(max_records=1)
    assert (bench.items, bench.at(shard_id).position) == ([3], Position.after(third))
    bench.run()
    assert bench.items == [3, 4]


def test_an_explicit_start_on_a_page_after_the_planned_time_stays_inclusive(bench):
    (shard_id,) = bench.create()
    _, _, third, _ = bench.put(1, 2, 3, 4)
    start = Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=third)
    plan = bench.plan(start=str(start), until=bench.now)
    assert bench.execute(plan).outcomes[shard_id].rows == 0
    assert bench.at(shard_id).position == start
    bench.run(max_records=1)
    assert bench.items == [3]
    bench.run()
    assert bench.items == [3, 4]


def test_a_start_at_a_time_on_an_empty_page_stays_inclusive(bench):
    (shard_id,) = bench.create()
    bench.put(1)
    bench.later(seconds=5)
    start = at_time(bench.now)
    bench.run(start=start)
    assert bench.at(shard_id).position == Position.parse(start)
    bench.put(2)  # exactly at the start time
    bench.run()
    assert bench.items == [2]


def test_a_start_inside_an_aggregate_on_an_empty_page_is_inside_it(bench, faults):
    (shard_id,) = bench.create()
    (number,) = bench.put(aggregate_of(1, 2, 3))
    faults.empty_page(behind_ms=0, times=1)
    bench.run(start=str(Position.after(number, 0)), max_records=1)
    assert (bench.items, bench.at(shard_id).position) == ([2], Position.after(number, 1))
    bench.run()
    assert (bench.items, bench.at(shard_id).position) == ([2, 3], Position.after(number))


def test_a_resumed_position_on_an_empty_page_stays_exclusive(bench, faults):
    (shard_id,) = bench.create()
    (last,) = bench.put(1)
    bench.run()
    faults.empty_page(behind_ms=0, times=1)
    bench.put(2)
    bench.run()
    assert bench.at(shard_id).position == Position.after(last)
    bench.run()
    assert bench.items == [1, 2]
