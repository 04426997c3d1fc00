"""One task's work: many shards side by side into shared files, and what is told of them."""

from __future__ import annotations

import math
import threading
from functools import cache, partial
from types import SimpleNamespace

import pytest

from kinesis_assets.errors import ReadFailed
from kinesis_assets.ingest.manifest import Landing, decode_all, encode
from kinesis_assets.ingest.task import LandingJob, land_group
from kinesis_assets.kinesis.limits import Allowance, Bounds
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.range import RangeEnd, ShardRange
from kinesis_assets.kinesis.settings import CONNECTIONS
from kinesis_assets.table import data_file_writer
from kinesis_assets.table.data_file_writer import FileLayout

ALL_KEYS = ("0", str((1 << 128) - 1))
BEGINNING = Position.parse("TRIM_HORIZON")
KEYS = 1 << 128

A_PAGE_EACH = FileLayout(row_group_bytes=1)
"""A row group for each page."""


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

    def land(shard_ids, layout=FileLayout(), **bounds):
        job = LandingJob(stream, settings, table.folder, 77, math.inf, layout)
        return land_group(job, [range_of(shard_id, **bounds) for shard_id in shard_ids], Allowance())

    return land


def test_more_shards_than_calls_at_once_are_all_landed_in_one_file(shards, land):
    shard_ids = shards(CONNECTIONS + 6, 3)
    landing = land(shard_ids)
    (file,) = landing.files
    assert file.rows_by_shard == dict.fromkeys(shard_ids, 3)
    assert [(shard.shard_id, shard.stats.rows, shard.end) for shard in landing.shards] == [
        (shard_id, 3, RangeEnd.TIP) for shard_id in shard_ids
    ]


def test_idle_shards_land_no_file(shards, land):
    landing = land(shards(2, 0))
    assert landing.files == ()
    assert [(shard.stats.through, shard.stats.rows) for shard in landing.shards] == [(BEGINNING, 0)] * 2


def test_failing_shard_ends_its_own_range_alone(shards, land, faults):
    first, second = shards(2, 4)
    faults.page_size(2)
    faults.fail(status=400, code="AccessDeniedException", shard_id=first, after=1, times=1)
    landing = land([first, second])
    failed, whole = landing.shards
    assert isinstance(failed.error, ReadFailed)
    assert (failed.stats.rows, failed.end) == (2, None)
    assert (whole.stats.rows, whole.end, whole.error) == (4, RangeEnd.TIP, None)
    assert landing.files[0].rows_by_shard == {first: 2, second: 4}


def test_a_manifest_keeps_a_landing_with_its_errors(shards, land, faults):
    shard_ids = shards(1, 1)
    faults.fail(status=400, code="AccessDeniedException")
    landing = land(shard_ids)
    (again,) = decode_all("clicks", [encode(landing)], Landing)
    assert str(again.shards[0].error) == str(landing.shards[0].error)
    assert type(again.shards[0].error) is ReadFailed


def test_error_of_the_writer_ends_the_task_and_its_threads(shards, land, faults, monkeypatch):
    shard_ids = shards(20, 6)
    faults.page_size(2)

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(data_file_writer._OpenFile, "_write_row_group", full)
    before = set(threading.enumerate())
    # With the error its frames are kept, and the writer in them: that threads end is not left to chance.
    with pytest.raises(OSError, match="no space left") as _kept:
        land(shard_ids, A_PAGE_EACH)
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive(), thread


def test_error_that_is_no_shards_fails_the_task(shards, land, monkeypatch):
    shard_ids = shards(3, 1)

    def broken(*_):
        raise MemoryError

    monkeypatch.setattr("kinesis_assets.ingest.task.record_batch", broken)
    with pytest.raises(MemoryError):
        land(shard_ids)


class Latest:
    """In a file's thread's place: does each thing as late as it can, when that is waited for."""

    def __init__(self, _): ...

    def submit(self, do, *arguments):
        return SimpleNamespace(result=cache(partial(do, *arguments)))

    def shutdown(self, **_): ...


def test_a_task_reads_no_further_than_two_row_groups_ahead_of_a_slow_store(
    shards, land, faults, monkeypatch, stream
):
    shard_ids = shards(1, 5)
    faults.page_size(1)
    asked = []  # pages, when each row group is begun
    write = data_file_writer._OpenFile._write_row_group

    def noted(*arguments):
        # A call that an earlier test had given up may arrive now.
        asked.append(sum((call.operation, call.stream) == ("GetRecords", stream) for call in faults.calls))
        write(*arguments)

    monkeypatch.setattr(data_file_writer, "ThreadPoolExecutor", Latest)
    monkeypatch.setattr(data_file_writer._OpenFile, "_write_row_group", noted)
    assert land(shard_ids, A_PAGE_EACH).shards[0].stats.rows == 5
    assert asked == [2, 3, 4, 5, 5]
