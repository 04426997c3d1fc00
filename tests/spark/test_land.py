"""One task's work: many shards side by side into shared files, and what is told of them."""

from __future__ import annotations

import pickle
import threading

import pytest

from kinesis_assets.errors import ReadFailed
from kinesis_assets.kinesis.bounds import Allowance, Bounds
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reader import RangeEnd, ShardRange
from kinesis_assets.spark.land import LandingJob, land_group
from kinesis_assets.table.files import DataFileWriter

ALL_KEYS = ("0", str((1 << 128) - 1))
BEGINNING = Position.parse("TRIM_HORIZON")
KEYS = 1 << 128


@pytest.fixture
def shards(kinesis, stream):
    """Creates the stream, with so many records in each shard; the shards' ids."""

    def shards(count, records):
        kinesis.create_stream(StreamName=stream, ShardCount=count)
        for number in range(count):
            key = str(KEYS * (2 * number + 1) // (2 * count))
            entries = [
                {"Data": b"%d" % item, "PartitionKey": "k", "ExplicitHashKey": key} for item in range(records)
            ]
            if entries:
                kinesis.put_records(StreamName=stream, Records=entries)
        return [f"shardId-{number:012}" for number in range(count)]

    return shards


def range_of(shard_id, **bounds):
    return ShardRange(shard_id, BEGINNING, Bounds(**bounds), ALL_KEYS)


@pytest.fixture
def land(stream, settings, table):
    """Lands whole shards as one task."""

    def land(shard_ids, **bounds):
        job = LandingJob(stream, settings, table.folder, 77)
        return land_group(job, [range_of(shard_id, **bounds) for shard_id in shard_ids], Allowance())

    return land


def test_more_shards_than_threads_are_all_landed_in_one_file(shards, land):
    shard_ids = shards(20, 3)
    landing = land(shard_ids)
    (file,) = landing.files
    assert file.rows_by_shard == dict.fromkeys(shard_ids, 3)
    assert [(shard.shard_id, shard.rows, shard.end) for shard in landing.shards] == [
        (shard_id, 3, RangeEnd.TIP) for shard_id in shard_ids
    ]


def test_idle_shards_land_no_file(shards, land):
    landing = land(shards(2, 0))
    assert landing.files == ()
    assert [(shard.position, shard.rows) for shard in landing.shards] == [(BEGINNING, 0)] * 2


def test_failing_shard_ends_its_own_range_alone(shards, land, faults):
    first, second = shards(2, 4)
    faults.page_size(2)
    faults.fail(status=400, code="AccessDeniedException", shard_id=first, after=1, times=1)
    landing = land([first, second])
    failed, whole = landing.shards
    assert isinstance(failed.error, ReadFailed)
    assert (failed.rows, failed.end) == (2, None)
    assert (whole.rows, whole.end, whole.error) == (4, RangeEnd.TIP, None)
    assert landing.files[0].rows_by_shard == {first: 2, second: 4}


def test_landing_can_be_pickled_with_its_errors(shards, land, faults):
    shard_ids = shards(1, 1)
    faults.fail(status=400, code="AccessDeniedException")
    landing = land(shard_ids)
    again = pickle.loads(pickle.dumps(landing))  # noqa: S301  # as Spark does
    assert str(again.shards[0].error) == str(landing.shards[0].error)
    assert type(again.shards[0].error) is ReadFailed


def test_error_of_the_writer_ends_the_task_and_its_threads(shards, land, faults, monkeypatch):
    shard_ids = shards(20, 6)
    faults.page_size(2)

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(DataFileWriter, "write", full)
    with pytest.raises(OSError, match="no space left"):
        land(shard_ids)
    assert not [thread for thread in threading.enumerate() if "ThreadPoolExecutor" in thread.name]


def test_error_that_is_no_shards_fails_the_task(shards, land, monkeypatch):
    shard_ids = shards(3, 1)

    def broken(*_):
        raise MemoryError

    monkeypatch.setattr("kinesis_assets.spark.land.record_batch", broken)
    with pytest.raises(MemoryError):
        land(shard_ids)


def test_readers_wait_for_the_writer(shards, land, faults, monkeypatch):
    shard_ids = shards(1, 8)
    faults.page_size(1)
    ran_ahead = threading.Event()
    faults.answer("GetRecords", lambda *_: ran_ahead.set() if faults.count("GetRecords") > 3 else None)
    real = DataFileWriter.write

    def slow(writer, shard_id, batch):
        # One page is being written, one waits, one is in hand: time enough for three more goes by.
        if not ran_ahead.is_set():
            assert not ran_ahead.wait(timeout=1.5)
            ran_ahead.set()
        real(writer, shard_id, batch)

    monkeypatch.setattr(DataFileWriter, "write", slow)
    assert land(shard_ids).shards[0].rows == 8
