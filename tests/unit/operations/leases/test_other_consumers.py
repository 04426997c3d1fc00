"""Positions of Redpanda Connect, Spark, Flink and of JSON files, as these write them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial

import pytest

from kinesis_assets.errors import InvalidInput, LeasesRefused
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.stream import StreamIdentity
from kinesis_assets.operations.leases import other_consumers
from kinesis_assets.operations.leases.import_leases import take_over
from kinesis_assets.operations.leases.other_consumers import (
    REDPANDA_KEY,
    of_flink,
    of_json,
    of_redpanda,
    of_spark,
    signs_of_life,
)
from kinesis_assets.table.store.storage import TableFolder
from support.lease_items import LeaseItems
from support.shard_ids import A, B, C

NUMBER = "49605240428222307037115827613554798409561082419642105874"
OTHER = "49605240428200006291917297020490128157480794051565322242"
EARLIEST = Position.parse("TRIM_HORIZON")
CLICKS = StreamIdentity("arn:aws:kinesis:eu-west-1:123456789012:stream/clicks", datetime.now(UTC))


def found(shards):
    """Return the position of each shard, and whether it was read to its end."""
    return {shard_id: (shard.position, shard.ended) for shard_id, shard in shards.items()}


# Redpanda Connect


@pytest.fixture
def redpanda(moto):
    return LeaseItems(moto, *REDPANDA_KEY)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clicks", CLICKS.arn])
def test_redpanda_connect_goes_on_after_the_number_of_each_shard(redpanda, name):
    redpanda.put(
        StreamID=name,
        ShardID=A,
        SequenceNumber=NUMBER,
        ClientID="one",
        LeaseTimeout="2026-01-31T12:00:00.5Z",
    )
    redpanda.put(StreamID=name, ShardID=B, SequenceNumber=OTHER)
    redpanda.put(StreamID=name, ShardID=C, ClientID="one", LeaseTimeout="2026-01-31T12:00:00.5Z")
    redpanda.put(StreamID="other", ShardID=A, SequenceNumber="7")
    assert found(of_redpanda(redpanda.table.items(), CLICKS)) == {
        A: (Position.after(NUMBER), False),
        B: (Position.after(OTHER), False),
        C: (None, False),
    }


@pytest.mark.slow
def test_redpanda_connect_that_renews_a_claim_is_refused(redpanda):
    redpanda.put(StreamID="clicks", ShardID=A, SequenceNumber=NUMBER, ClientID="one", LeaseTimeout="1")
    redpanda.put(StreamID="other", ShardID=A, SequenceNumber=NUMBER, ClientID="one", LeaseTimeout="1")

    def renew(_):
        redpanda.put(StreamID="other", ShardID=A, SequenceNumber=NUMBER, ClientID="one", LeaseTimeout="2")
        redpanda.put(StreamID="clicks", ShardID=A, SequenceNumber=NUMBER, ClientID="one", LeaseTimeout="2")

    with pytest.raises(LeasesRefused) as refused:
        redpanda.table.items_at_rest(
            "clicks", partial(signs_of_life, identity=CLICKS), seconds=10, sleep=renew
        )
    assert [*refused.value.reasons] == [f"clicks {A}"]


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ([], "is empty"),
        ([{"StreamID": "other", "ShardID": A}], "items of other"),
        ([{"StreamID": "clicks", "ShardID": A, "SequenceNumber": "x"}], "invalid sequence number"),
        (
            [{"StreamID": name, "ShardID": A, "SequenceNumber": "1"} for name in ("clicks", CLICKS.arn)],
            "by its name and by its ARN",
        ),
    ],
)
def test_items_of_redpanda_connect_that_are_not_understood_are_refused(items, reason):
    plain = [{name: {"S": value} for name, value in item.items()} for item in items]
    with pytest.raises(LeasesRefused, match=reason):
        of_redpanda(plain, CLICKS)


# Spark


class Checkpoint:
    """The checkpoint folder of a query."""

    def __init__(self, folder):
        self.folder = folder

    def batch(self, number, starts, ends=None, *, committed=True, beside="shard-source", name="clicks"):
        """Write a batch: its starts and, by shard, its ends."""
        offsets = {"metadata": {"batchId": str(number), "streamName": name}}
        offsets |= {
            shard: {key: str(value).lower() if value is True else str(value) for key, value in start.items()}
            for shard, start in starts.items()
        }
        self.write(f"offsets/{number}", f'v1\n{{"batchWatermarkMs":0}}\n-\n{json.dumps(offsets)}')
        for shard, end in (ends or {}).items():
            self.write(f"sources/1/{beside}/{number}/{shard}", json.dumps({"shardId": shard, **end}))
        if committed:
            self.write(f"commits/{number}", 'v1\n{"nextBatchWatermarkMs":0}')

    def write(self, path, content):
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    def read(self):
        return of_spark(TableFolder.at(str(self.folder)), "clicks")


@pytest.fixture
def checkpoint(tmp_path):
    return Checkpoint(tmp_path)


def after(number, sub=-1, *, last=True):
    """Return a position as the connector of AWS writes it."""
    return {
        "iteratorType": "AFTER_SEQUENCE_NUMBER",
        "iteratorPosition": number,
        "subSequenceNumber": sub,
        "isLast": last,
    }


def at(kind, position=""):
    return {"iteratorType": kind, "iteratorPosition": position, "subSequenceNumber": -1, "isLast": True}


def test_spark_goes_on_after_the_ends_of_its_last_committed_batch(checkpoint):
    checkpoint.batch(8, {A: at("TRIM_HORIZON")}, {A: after(OTHER)})
    checkpoint.batch(
        9,
        {A: after(OTHER), B: at("AT_TIMESTAMP", 1769860800000), C: after(OTHER), "shardId-9": after(OTHER)},
        {A: after(NUMBER, 4, last=False), C: at("SHARD_END"), "shardId-9": after(NUMBER, 4)},
    )
    checkpoint.batch(10, {A: after(NUMBER)}, {A: after("9" * 56)}, committed=False)
    for hidden in ("commits/.9.crc", f"sources/1/shard-source/9/.{A}.crc"):
        checkpoint.write(hidden, "checksum")
    assert found(checkpoint.read()) == {
        A: (Position.after(NUMBER, 4), False),
        B: (Position.parse("AT_TIMESTAMP:2026-01-31T12:00:00Z"), False),
        C: (None, True),
        "shardId-9": (Position.after(NUMBER), False),
    }


def test_the_numbers_of_batches_are_compared_as_numbers(checkpoint):
    checkpoint.batch(9, {A: at("TRIM_HORIZON")}, {A: after(OTHER)})
    checkpoint.batch(10, {A: after(OTHER)}, {A: after(NUMBER)})
    assert checkpoint.read()[A].position == Position.after(NUMBER)


def test_the_connector_of_qubole_is_read_too(checkpoint):
    end = {"iteratorType": "AFTER_SEQUENCE_NUMBER", "iteratorPosition": NUMBER}
    start = {"iteratorType": "TRIM_HORIZON", "iteratorPosition": ""}
    checkpoint.batch(0, {A: start, B: start}, {A: end}, beside="shard-commit")
    assert found(checkpoint.read()) == {A: (Position.after(NUMBER), False), B: (EARLIEST, False)}


def test_a_shard_at_latest_has_no_position_in_time(checkpoint):
    checkpoint.batch(0, {A: at("LATEST")}, {A: at("LATEST")})
    assert found(checkpoint.read()) == {A: (None, False)}


def test_a_folder_without_a_committed_batch_is_refused(checkpoint):
    checkpoint.batch(0, {A: at("TRIM_HORIZON")}, {A: after(NUMBER)}, committed=False)
    with pytest.raises(InvalidInput, match="no committed batch"):
        checkpoint.read()


def test_a_batch_without_the_ends_of_its_shards_is_refused(checkpoint):
    checkpoint.batch(0, {A: at("TRIM_HORIZON")})
    with pytest.raises(InvalidInput, match="no ends of its shards"):
        checkpoint.read()


def test_offsets_without_their_batch_are_refused(checkpoint):
    checkpoint.batch(0, {A: at("TRIM_HORIZON")}, {A: after(NUMBER)})
    checkpoint.write("offsets/0", f"v1\n{{}}\n0\n{json.dumps({'metadata': {'streamName': 'clicks'}})}")
    with pytest.raises(InvalidInput, match=r"no batchId.*--from json"):
        checkpoint.read()


def test_a_query_over_another_stream_is_refused(checkpoint):
    checkpoint.batch(0, {A: at("TRIM_HORIZON")}, {A: after(NUMBER)}, name="other")
    with pytest.raises(InvalidInput, match="0 sources of the query read the stream clicks"):
        checkpoint.read()


@pytest.mark.parametrize(
    "end",
    [
        {"iteratorType": "SOMETHING", "iteratorPosition": NUMBER},
        {"iteratorType": "AFTER_SEQUENCE_NUMBER", "iteratorPosition": "x"},
        {"iteratorType": "AFTER_SEQUENCE_NUMBER", "iteratorPosition": ""},
        {"iteratorType": "AT_SEQUENCE_NUMBER", "iteratorPosition": "5", "subSequenceNumber": 2},
        {"iteratorPosition": NUMBER},
        [],
    ],
)
def test_an_end_that_is_not_understood_is_refused_with_its_shard(checkpoint, end):
    checkpoint.batch(0, {A: at("TRIM_HORIZON")}, {B: after(NUMBER)})
    checkpoint.write(f"sources/1/shard-source/0/{A}", json.dumps(end))
    with pytest.raises(InvalidInput, match=A):
        checkpoint.read()


def test_an_end_that_is_no_json_is_refused(checkpoint):
    checkpoint.batch(0, {A: at("TRIM_HORIZON")}, {A: after(NUMBER)})
    checkpoint.write(f"sources/1/shard-source/0/{A}", '{"shardId"')
    with pytest.raises(InvalidInput, match="no JSON"):
        checkpoint.read()


# Flink and JSON

OF_FLINK = [
    {"shardId": A, "sequenceNumber": NUMBER, "subSequenceNumber": -1},
    {"shardId": B, "sequenceNumber": NUMBER, "subSequenceNumber": 3},
    {"shardId": C, "sequenceNumber": "SHARD_ENDING_SEQUENCE_NUM", "subSequenceNumber": -1},
    {"shardId": "shardId-3", "sequenceNumber": "EARLIEST_SEQUENCE_NUM", "subSequenceNumber": -1},
    {"shardId": "shardId-4", "sequenceNumber": "LATEST_SEQUENCE_NUM", "subSequenceNumber": -1},
    {
        "shardId": "shardId-5",
        "startingPosition": {"shardIteratorType": "AFTER_SEQUENCE_NUMBER", "startingMarker": NUMBER},
    },
    {
        "shardId": "shardId-6",
        "startingPosition": {"shardIteratorType": "AT_TIMESTAMP", "startingMarker": "2026-01-31T12:00:00Z"},
    },
    {
        "shardId": "shardId-7",
        "startingPosition": {"shardIteratorType": "TRIM_HORIZON", "startingMarker": None},
    },
]


@pytest.mark.parametrize("as_lines", [True, False])
def test_the_state_of_flink_is_read_as_a_list_or_as_lines(tmp_path, as_lines):
    file = tmp_path / "state.json"
    file.write_text("\n".join(map(json.dumps, OF_FLINK)) if as_lines else json.dumps(OF_FLINK))
    assert found(of_flink(str(file))) == {
        A: (Position.after(NUMBER), False),
        B: (Position.after(NUMBER, 3), False),
        C: (None, True),
        "shardId-3": (EARLIEST, False),
        "shardId-4": (None, False),
        "shardId-5": (Position.after(NUMBER), False),
        "shardId-6": (Position.parse("AT_TIMESTAMP:2026-01-31T12:00:00Z"), False),
        "shardId-7": (EARLIEST, False),
    }


def test_a_json_file_has_positions_and_sequence_numbers(tmp_path):
    file = tmp_path / "positions.json"
    positions = {
        A: NUMBER,
        B: f"AFTER_SEQUENCE_NUMBER:{NUMBER}:3",
        C: "SHARD_END",
        "shardId-3": "TRIM_HORIZON",
        "shardId-4": "LATEST",
        "shardId-5": {"sequenceNumber": int(NUMBER), "subSequenceNumber": 0},
    }
    file.write_text(json.dumps(positions))
    assert found(of_json(str(file))) == {
        A: (Position.after(NUMBER), False),
        B: (Position.after(NUMBER, 3), False),
        C: (None, True),
        "shardId-3": (EARLIEST, False),
        "shardId-4": (None, False),
        "shardId-5": (Position.after(NUMBER, 0), False),
    }


@pytest.mark.parametrize(
    "value",
    [
        "latest",
        " Latest ",
        {"sequenceNumber": "latest_sequence_num"},
        {"startingPosition": {"shardIteratorType": "latest", "startingMarker": None}},
        {"iteratorType": "latest", "iteratorPosition": ""},
    ],
)
def test_latest_in_any_case_has_no_position_in_time(tmp_path, value):
    file = tmp_path / "positions.json"
    file.write_text(json.dumps({A: value}))
    assert found(of_json(str(file))) == {A: (None, False)}


@pytest.mark.parametrize(
    "value",
    [
        "shard_end",
        {"sequenceNumber": "shard_ending_sequence_num"},
        {"iteratorType": "shard_end", "iteratorPosition": ""},
    ],
)
def test_the_end_of_a_shard_is_understood_in_any_case(tmp_path, value):
    file = tmp_path / "positions.json"
    file.write_text(json.dumps({A: value}))
    assert found(of_json(str(file))) == {A: (None, True)}


@pytest.mark.parametrize("read", [of_flink, of_json])
@pytest.mark.parametrize(
    "content", ["{", "[1]", '[{"sequenceNumber": "1"}]', '{"a": 1}', '{"a": "somewhere"}', '{"a": null}']
)
def test_a_file_that_is_not_understood_is_refused(tmp_path, read, content):
    file = tmp_path / "state.json"
    file.write_text(content)
    with pytest.raises(InvalidInput):
        read(str(file))


@pytest.mark.parametrize(
    "marker",
    [10**15, 10**20, 10**25, 10**400, "9999-12-31T23:59:59-05:00"],
    ids=["10^15", "10^20", "10^25", "10^400", "text"],
)
def test_a_time_of_flink_after_the_year_9999_is_refused(tmp_path, marker):
    file = tmp_path / "state.json"
    start = {"shardIteratorType": "AT_TIMESTAMP", "startingMarker": marker}
    file.write_text(json.dumps([{"shardId": A, "startingPosition": start}]))
    with pytest.raises(InvalidInput, match=f"{A}: .* no position that is understood"):
        of_flink(str(file))


def test_a_checkpoint_folder_that_cannot_be_listed_is_refused(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("ACCESS_DENIED")

    monkeypatch.setattr(other_consumers, "files_in", refuse)
    with pytest.raises(InvalidInput, match=r"/commits cannot be listed: ACCESS_DENIED"):
        of_spark(TableFolder(str(tmp_path)), "clicks")


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="cannot be read"):
        of_json(str(tmp_path / "none"))


# What they have in common


def test_the_last_number_of_a_closed_shard_is_its_end(bench):
    (parent,) = bench.create()
    bench.put(1)
    left, right = bench.split(parent)
    bench.put(2, shard_id=left)
    shard, *_ = bench.client.list_shards()
    consumer = of_redpanda(
        [
            {
                "StreamID": {"S": bench.stream},
                "ShardID": {"S": parent},
                "SequenceNumber": {"S": shard.ending_sequence_number},
            }
        ],
        bench.client.describe().identity,
    )
    take_over(bench.client, bench.table, consumer, default=None, on_data_loss="fail", by="ann", apply=True)
    assert bench.at(parent).finished
    bench.run([left, right])
    assert bench.items == [2]
