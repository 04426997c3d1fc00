"""Damaged aggregates are landed unchanged with an error, and block a shard only beyond `max_bad_records`."""

from __future__ import annotations

import hashlib

import pytest
from deltalake import DeltaTable

from kinesis_assets.errors import TooManyBadRecords
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.records.aggregation import MAGIC, OUTSIDE_HASH_RANGE
from kinesis_assets.testing import UserRecord, aggregate

WRONG_MD5 = "aggregate: its MD5 does not match"


def aggregate_of(*data):
    """An aggregate of these payloads for the first shard."""
    return aggregate(UserRecord("k", item, "0") for item in data)


def sealed(body):
    """Wrap a body in the magic prefix and the MD5 of an aggregate."""
    return MAGIC + body + hashlib.md5(body).digest()  # noqa: S324  # required by the format


def damaged(*data):
    """An aggregate with one flipped bit."""
    sound = aggregate_of(*data)
    return sound[:-1] + bytes([sound[-1] ^ 1])


DAMAGED = {
    "only the magic prefix": MAGIC,
    "truncated": aggregate_of(b"1")[:-5],
    "flipped bit": damaged(b"1"),
    "invalid protobuf": sealed(b"\xff"),
    "missing field": sealed(b"\x1a\x00"),
    "no sub-records": sealed(b""),
    "unknown partition key": sealed(b"\x1a\x05\x08\x07\x1a\x01x"),
}


def data_and_errors(bench):
    """Return (data, error) of every row in stream order."""
    return [(row["data"], row["error"]) for row in bench.rows]


# Damaged records are kept unchanged


@pytest.mark.parametrize("damaged_record", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_record_is_landed_unchanged_with_an_error_next_to_other_rows(bench, damaged_record):
    first, second = bench.create(2)
    numbers = bench.put(b"before", damaged_record, aggregate_of(b"a", b"b"), shard_id=first)
    bench.put(b"other", shard_id=second)
    plan = bench.plan()
    before = bench.version
    result = bench.execute(plan)
    assert result.errors == {}
    assert (result.version, bench.version) == (before + 1, before + 1)
    data, errors = zip(*data_and_errors(bench), strict=True)
    assert data == (b"before", damaged_record, b"a", b"b", b"other")
    assert [error is not None for error in errors] == [False, True, False, False, False]
    assert errors[1].startswith("aggregate: ")
    assert bench.rows[1]["sequence_number"] == numbers[1]
    assert bench.rows[1]["sub_sequence_number"] == 0
    assert result.outcomes[first].facts.bad_records == 1
    assert result.outcomes[second].facts.bad_records == 0
    assert bench.at(first).position == Position.after(numbers[-1])


def test_a_shard_with_only_damaged_records_is_read_to_its_end(bench):
    (shard_id,) = bench.create()
    bench.put(*DAMAGED.values(), shard_id=shard_id)
    bench.split(shard_id)
    outcome = bench.run([shard_id]).outcomes[shard_id]
    assert (outcome.state, outcome.rows, outcome.facts.bad_records) == (ShardState.FINISHED, 7, 7)
    assert [row["data"] for row in bench.rows] == list(DAMAGED.values())


@pytest.mark.parametrize("payload", [b"\x00\xff\xfe", b"", bytes(range(256)), "\u2028é".encode()])
def test_payload_bytes_are_landed_unchanged_with_and_without_aggregation(bench, payload):
    (shard_id,) = bench.create()
    bench.put(*[payload] if payload else [], aggregate_of(b"x", payload, b"y"), shard_id=shard_id)
    assert bench.run().errors == {}
    plain = [payload] if payload else []
    assert [row["data"] for row in bench.rows] == [*plain, b"x", payload, b"y"]
    assert [row["partition_key"] for row in bench.rows] == ["k"] * len(bench.rows)


def test_rows_of_an_aggregate_share_its_sequence_number_and_differ_in_sub_sequence_number(bench):
    (shard_id,) = bench.create()
    numbers = bench.put(b"0", aggregate_of(b"1", b"2"), b"3", shard_id=shard_id)
    bench.run()
    assert [(row["sequence_number"], row["sub_sequence_number"]) for row in bench.rows] == [
        (numbers[0], 0),
        (numbers[1], 0),
        (numbers[1], 1),
        (numbers[2], 0),
    ]


# Sub-records outside the hash range of their shard


LAST_KEY = str((1 << 128) - 1)
STRAYS = aggregate([UserRecord("k", b"own", "0"), UserRecord("k", b"stray", LAST_KEY)])
"""An aggregate for the first shard of two, with a sub-record of the second one."""

MARKED = [(b"own", None), (b"stray", OUTSIDE_HASH_RANGE)]
UNMARKED = [(b"own", None), (b"stray", None)]


def set_mode(bench, mode, strategy=None):
    """Set the stream's capacity mode, and how an on-demand stream distributes its records."""
    arn = bench.client.describe().identity.arn
    bench.kinesis.update_stream_mode(StreamARN=arn, StreamModeDetails={"StreamMode": mode})
    if strategy is not None:
        bench.kinesis.update_stream_record_distribution_strategy(
            StreamARN=arn, RecordDistributionStrategy=strategy
        )


def put_under_auto(bench, *items):
    """Put records while the stream is on-demand and distributes them over its shards, then switch back."""
    set_mode(bench, "ON_DEMAND", "AUTO")
    entries = [{"Data": item, "PartitionKey": "k"} for item in items]
    assert bench.kinesis.put_records(StreamName=bench.stream, Records=entries)["FailedRecordCount"] == 0
    set_mode(bench, "PROVISIONED")


def see_mode(bench):
    """Have a run see the capacity mode, before the records that the test puts next."""
    bench.run()
    bench.later(seconds=1)


@pytest.fixture
def answer_once(faults):
    """Change the mode in the next description of the stream; None removes it."""

    def answer_once(mode):
        def changed(_, response):
            faults.clear()
            summary = dict(response.members["StreamDescriptionSummary"])
            del summary["StreamModeDetails"]
            if mode is not None:
                summary["StreamModeDetails"] = {"StreamMode": mode}
            return response.but(StreamDescriptionSummary=summary)

        faults.answer("DescribeStreamSummary", changed)

    return answer_once


def test_after_a_split_sub_records_of_the_other_child_are_marked(bench):
    (parent,) = bench.create()
    see_mode(bench)
    low, high = bench.split(parent)
    for_low, for_high = str(bench.hash_range(low)[1]), str(bench.hash_range(high)[0])
    # Aggregated for the parent and put into its lower child. The producer then repeats the stray.
    late = aggregate([UserRecord("k", b"low", for_low), UserRecord("k", b"stray", for_high)])
    bench.put(late, shard_id=low)
    bench.put(aggregate([UserRecord("k", b"stray", for_high)]), shard_id=high)
    result = bench.run()
    assert [(row["shard_id"], row["data"], row["error"]) for row in bench.rows] == [
        (low, b"low", None),
        (low, b"stray", OUTSIDE_HASH_RANGE),
        (high, b"stray", None),
    ]
    counts = {
        shard_id: (outcome.rows, outcome.facts.outside_hash_range, outcome.facts.bad_records)
        for shard_id, outcome in result.outcomes.items()
    }
    assert counts == {parent: (0, 0, 0), low: (2, 1, 0), high: (1, 0, 0)}
    assert {outcome.error for outcome in result.outcomes.values()} == {None}


def test_strays_do_not_count_as_bad_records(bench):
    bench.create(2)
    see_mode(bench)
    bench.put(STRAYS)
    result = bench.run(max_bad_records=0)
    assert result.errors == {}
    assert data_and_errors(bench) == MARKED


@pytest.mark.parametrize("seen_before", [False, True], ids=["first run", "seen on-demand"])
def test_records_put_under_auto_are_not_marked_after_a_switch_to_provisioned(bench, seen_before):
    bench.create(2)
    if seen_before:
        set_mode(bench, "ON_DEMAND", "AUTO")
        see_mode(bench)
    put_under_auto(bench, *[STRAYS] * 8)
    see_mode(bench)
    assert sorted(data_and_errors(bench)) == sorted(UNMARKED * 8)
    bench.put(STRAYS)
    bench.run()
    assert sum(error == OUTSIDE_HASH_RANGE for _, error in data_and_errors(bench)) == 1


def test_the_mode_is_not_known_for_a_time_in_which_no_run_saw_it(bench):
    bench.create(2)
    see_mode(bench)
    bench.later(hours=1)
    put_under_auto(bench, *[STRAYS] * 8)
    bench.later(hours=2)
    bench.run()
    assert sorted(data_and_errors(bench)) == sorted(UNMARKED * 8)


def test_the_mode_is_not_known_after_it_was_last_seen(bench):
    (first, _) = bench.create(2)
    see_mode(bench)
    listing = bench.client.listing()
    bench.put(STRAYS)
    bench.later(seconds=2)
    bench.put(STRAYS)
    plan = plan_run(
        bench.client, bench.table, asked=[first], policy=ReadPolicy(), listing=listing, now=bench.now
    )
    bench.execute(plan)
    assert data_and_errors(bench) == MARKED + UNMARKED


@pytest.mark.parametrize("mode", [None, "ON_DEMAND"])
def test_one_response_with_another_mode_does_not_change_what_is_marked(bench, answer_once, mode):
    bench.create(2)
    see_mode(bench)
    bench.put(STRAYS)
    answer_once(mode)
    bench.run()
    assert data_and_errors(bench) == MARKED


def test_one_response_with_the_mode_provisioned_marks_nothing_in_an_on_demand_stream(bench, answer_once):
    bench.create(2)
    set_mode(bench, "ON_DEMAND")
    see_mode(bench)
    bench.put(STRAYS)
    answer_once("PROVISIONED")
    see_mode(bench)
    bench.put(STRAYS)
    bench.run()
    assert data_and_errors(bench) == UNMARKED * 2


@pytest.mark.slow
def test_setting_a_position_keeps_what_is_known_of_the_mode(bench):
    (first, _) = bench.create(2)
    bench.put(b"plain")
    see_mode(bench)
    bench.put(STRAYS)
    bench.seek("TRIM_HORIZON", first)
    bench.run()
    assert data_and_errors(bench) == [(b"plain", None), *MARKED]


def test_a_replay_marks_as_a_run_does(bench):
    bench.create(2)
    put_under_auto(bench, STRAYS)
    see_mode(bench)
    bench.put(STRAYS)
    bench.run()
    marked = data_and_errors(bench)
    DeltaTable(bench.table.uri).delete()
    assert bench.replay().errors == {}
    assert data_and_errors(bench) == marked


# The limit of bad records


def test_without_a_limit_nothing_is_blocked(bench):
    (shard_id,) = bench.create()
    data = [damaged(b"%d" % number) for number in range(100)]
    bench.put(*data, shard_id=shard_id)
    result = bench.run()
    assert result.errors == {}
    assert result.outcomes[shard_id].facts.bad_records == 100
    assert data_and_errors(bench) == [(item, WRONG_MD5) for item in data]


@pytest.mark.parametrize(("limit", "landed"), [(0, 2), (1, 5), (2, 7)])
def test_a_shard_fails_before_the_record_that_exceeds_the_limit_and_keeps_earlier_rows(bench, limit, landed):
    shard_id, other = bench.create(2)
    bad = [damaged(b"%d" % number) for number in range(3)]
    data = [b"0", b"1", bad[0], aggregate_of(b"2", b"3"), bad[1], b"4", bad[2], b"5"]
    rows = [b"0", b"1", bad[0], b"2", b"3", bad[1], b"4", bad[2], b"5"]
    numbers = bench.put(*data, shard_id=shard_id)
    bench.put(b"n", shard_id=other)
    exceeding = numbers[data.index(bad[limit])]

    result = bench.run(max_bad_records=limit)
    failed, healthy = result.outcomes[shard_id], result.outcomes[other]
    assert (failed.state, failed.rows, failed.facts.bad_records) == (ShardState.FAILED, landed, limit)
    assert type(failed.error) is TooManyBadRecords
    assert f"record {exceeding} is damaged ({WRONG_MD5})" in str(failed.error)
    assert (healthy.state, healthy.rows, healthy.error) == (ShardState.COMMITTED, 1, None)
    assert [row["data"] for row in bench.rows] == [*rows[:landed], b"n"]
    assert bench.at(shard_id).position == Position.after(numbers[data.index(bad[limit]) - 1])

    result = bench.run(max_bad_records=3 - limit)
    assert result.errors == {}
    assert [row["data"] for row in bench.rows] == [*rows, b"n"]


def test_a_shard_above_the_limit_keeps_its_position_until_the_limit_is_raised(bench):
    (shard_id,) = bench.create()
    numbers = bench.put(b"0", damaged(b"1"), b"2", shard_id=shard_id)
    bench.run(max_bad_records=0)
    version = bench.version
    for _ in range(2):
        outcome = bench.run(max_bad_records=0).outcomes[shard_id]
        assert (outcome.state, outcome.rows) == (ShardState.FAILED, 0)
        assert isinstance(outcome.error, TooManyBadRecords)
    assert (bench.version, bench.at(shard_id).position) == (version, Position.after(numbers[0]))
    assert bench.run(max_bad_records=1).errors == {}
    assert bench.data == sorted([b"0", damaged(b"1"), b"2"])


def test_the_limit_applies_to_each_shard_separately(bench):
    shard_ids = bench.create(3)
    for shard_id in shard_ids:
        bench.put(damaged(b"1"), damaged(b"2"), shard_id=shard_id)
    result = bench.run(max_bad_records=2)
    assert result.errors == {}
    assert [outcome.facts.bad_records for outcome in result.outcomes.values()] == [2, 2, 2]


def test_children_of_a_shard_with_too_many_bad_records_wait(bench):
    (parent,) = bench.create()
    bench.put(damaged(b"1"), shard_id=parent)
    children = bench.split(parent)
    for child in children:
        bench.put(b"2", shard_id=child)
    outcomes = bench.run(max_bad_records=0).outcomes
    assert outcomes[parent].state is ShardState.FAILED
    assert [outcomes[child].state for child in children] == [ShardState.WAITING] * 2
    assert bench.data == []
    assert bench.run().errors == {}
    assert len(bench.data) == 3
