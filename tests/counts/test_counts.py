"""What a run asks for and makes, as counts that no machine changes. Each guards against its growth."""

from __future__ import annotations

import gc
import json
import sys
from base64 import b64encode
from functools import partial
from zlib import crc32

import msgspec
import pytest
from botocore.loaders import JSONFileLoader, create_loader
from deltalake import DeltaTable

from kinesis_assets.ingest.land import land
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.records import checksums as checksums_module
from kinesis_assets.kinesis.records.arrow import record_batch
from kinesis_assets.kinesis.records.checksums import checksums
from kinesis_assets.kinesis.records.wire import WirePage
from kinesis_assets.kinesis.sdk_client import _loader
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.table.table import PositionedTable

OF_A_RUN = {"DescribeStreamSummary": 2, "ListShards": 1}
RECORDS = 10_000
MOST_BLOCKS = 5  # its number, arrival, payload, key; and its share of the lists


@pytest.mark.parametrize("shards", [4, 32])
def test_an_idle_shard_costs_two_calls(counted, shards):
    counted.create(shards)
    counted.run()  # freezes the stream's start
    counted.run()
    assert counted.calls == OF_A_RUN | {"GetShardIterator": shards, "GetRecords": shards}


def test_a_run_that_finds_nothing_commits_nothing(counted):
    counted.create(2)
    counted.run()
    version = DeltaTable(counted.table.uri).version()
    counted.run()
    assert DeltaTable(counted.table.uri).version() == version


def test_a_backlog_costs_a_call_for_each_page(counted):
    counted.create(1)
    counted.put(25_000, b"data")
    counted.run()
    assert counted.calls["GetRecords"] == 3
    assert counted.calls["GetShardIterator"] == 1


@pytest.mark.parametrize("shards", [4, 32])
def test_one_task_makes_one_file_and_a_run_one_commit(counted, shards):
    counted.create(shards)
    counted.run()
    version = DeltaTable(counted.table.uri).version()
    counted.put(10, b"data")
    counted.run()
    assert DeltaTable(counted.table.uri).version() == version + 1
    assert len(DeltaTable(counted.table.uri).file_uris()) == 1


def test_a_run_in_spark_is_one_job_with_a_task_for_each_core(counted, spark):
    counted.create(8)
    counted.run()
    counted.put(10, b"data")
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    counted.run(partial(land, spark))
    (job,) = set(tracker.getJobIdsForGroup(None)) - before
    stages = [tracker.getStageInfo(stage) for stage in tracker.getJobInfo(job).stageIds]
    assert [stage.numTasks for stage in stages] == [spark.sparkContext.defaultParallelism]
    assert len(DeltaTable(counted.table.uri).file_uris()) == spark.sparkContext.defaultParallelism


def test_a_run_opens_the_table_twice(counted, monkeypatch):
    counted.create(2)
    counted.run()
    counted.put(10, b"data")
    opened = []
    look = PositionedTable.snapshot

    def snapshot(table):
        opened.append(table)
        return look(table)

    monkeypatch.setattr(PositionedTable, "snapshot", snapshot)
    counted.run()
    assert len(opened) == 2  # for its plan, and for its commit


def test_a_byte_that_lands_costs_less_than_two_on_the_wire(counted):
    counted.create(1)
    counted.put(5_000, bytes(1_000))
    result = counted.run()
    landed = sum(outcome.stats.bytes for outcome in result.outcomes.values())
    assert landed == 5_000_000
    assert sum(counted.answered) / landed < 1.55  # base64 alone takes 1.33


def test_a_further_client_reads_none_of_the_sdks_data_files(monkeypatch):
    settings = ClientSettings("us-east-1", "http://127.0.0.1:1")
    StreamClient("first", settings)
    read = []
    load = JSONFileLoader.load_file
    monkeypatch.setattr(JSONFileLoader, "load_file", lambda *args: read.append(args) or load(*args))
    StreamClient("second", settings)
    assert not read


def test_a_further_client_leaves_nothing_behind_in_what_they_share():
    settings = ClientSettings("us-east-1", "http://127.0.0.1:1")
    paths = [len(_loader(None).search_paths) for _ in range(3) if StreamClient("orders", settings)]
    assert len(set(paths)) == 1


def test_the_sdks_data_may_be_ones_own(tmp_path, monkeypatch):
    own = tmp_path / "kinesis" / "2013-12-02"
    own.mkdir(parents=True)
    model = create_loader().load_service_model("kinesis", "service-2")
    model["metadata"] |= {"targetPrefix": "Own"}
    (own / "service-2.json").write_text(json.dumps(model))

    def prefix():
        client = StreamClient("orders", ClientSettings("us-east-1", "http://127.0.0.1:1"))
        return client._client.meta.service_model.metadata["targetPrefix"]

    before = prefix()
    monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path))
    assert [before, prefix()] == ["Kinesis_20131202", "Own"]


def page() -> bytes:
    data = b64encode(bytes(1_000)).decode()
    records = [
        {
            "SequenceNumber": str((1 << 185) + number),
            "ApproximateArrivalTimestamp": 1_700_000_000.0 + number / 1000,
            "Data": data,
            "PartitionKey": f"key-{number}",
        }
        for number in range(RECORDS)
    ]
    return json.dumps({"Records": records, "MillisBehindLatest": 0, "NextShardIterator": "n"}).encode()


def test_a_parsed_record_is_four_objects_that_the_collector_never_sees():
    body, decoder = page(), msgspec.json.Decoder(WirePage)
    gc.collect()
    seen, blocks = len(gc.get_objects()), sys.getallocatedblocks()
    records = decoder.decode(body).to_result().records
    grown = sys.getallocatedblocks() - blocks
    assert grown / RECORDS <= MOST_BLOCKS
    assert len(gc.get_objects()) - seen < 100
    assert len(records) == RECORDS


def test_the_checksum_of_a_page_takes_one_crc(monkeypatch):
    records = msgspec.json.decode(page(), type=WirePage).to_result().records
    assert {len(number) for number in records.numbers} == {len(records.numbers[0])}
    taken = []
    monkeypatch.setattr(checksums_module, "crc32", lambda data: taken.append(data) or crc32(data))
    checksums(records)
    assert len(taken) == 1


def test_a_batch_keeps_no_object_for_each_record():
    records = msgspec.json.decode(page(), type=WirePage).to_result().records
    checksums(records)
    record_batch("stream", "shard", records)
    blocks = sys.getallocatedblocks()
    batch = record_batch("stream", "shard", records)
    assert (sys.getallocatedblocks() - blocks) / RECORDS < 0.01
    assert batch.num_rows == RECORDS
