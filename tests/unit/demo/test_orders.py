"""The orders of the demonstration."""

from __future__ import annotations

import hashlib
import json
import statistics

import boto3
import pytest

from kinesis_assets.demo.orders import STREAM, order, put_orders
from kinesis_assets.emulator import LocalKinesis


def test_orders_are_deterministic():
    assert [order(number) for number in range(100)] == [order(number) for number in range(100)]


def test_orders_are_different():
    assert len({json.dumps(order(number)) for number in range(1_000)}) == 1_000


def test_an_order_is_json_of_about_one_kilobyte():
    sizes = [len(json.dumps(order(number), ensure_ascii=False).encode()) for number in range(1_000)]
    assert 800 < statistics.mean(sizes) < 1_200
    assert min(sizes) > 600
    assert max(sizes) < 1_600


def test_the_total_of_an_order_is_the_sum_of_its_items():
    for number in range(100):
        made = order(number)
        assert made["total_cents"] == sum(
            line["quantity"] * line["unit_price_cents"] for line in made["lines"]
        )


@pytest.fixture
def kinesis():
    with LocalKinesis() as local:
        client = boto3.client("kinesis", endpoint_url=local.endpoint_url, region_name=local.region)
        client.create_stream(StreamName=STREAM, ShardCount=3)
        yield client
        client.close()


@pytest.mark.slow
def test_put_orders_are_returned_as_acknowledged(kinesis):
    acknowledged = [each for batch in put_orders(kinesis, 7, 1_203) for each in batch]

    stored = []
    for shard in kinesis.list_shards(StreamName=STREAM)["Shards"]:
        iterator = kinesis.get_shard_iterator(
            StreamName=STREAM, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        stored += [
            (shard["ShardId"], record["SequenceNumber"], hashlib.sha256(record["Data"]).hexdigest())
            for record in kinesis.get_records(ShardIterator=iterator)["Records"]
        ]
    assert len(acknowledged) == 1_203
    assert sorted(acknowledged) == sorted(stored)
    assert {shard_id for shard_id, _, _ in acknowledged} == {f"shardId-{number:012d}" for number in range(3)}


def test_numbers_continue_from_the_given_one(kinesis):
    first = [digest for batch in put_orders(kinesis, 0, 10) for _, _, digest in batch]
    again = [digest for batch in put_orders(kinesis, 5, 10) for _, _, digest in batch]
    assert again[:5] == first[5:]
    assert not set(again[5:]) & set(first)
