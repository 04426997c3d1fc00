"""One task of a landing: many shards are read concurrently into shared files."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace

import pytest

from benchmarks.harness.waiting import SECONDS, wait_until
from kinesis_assets.errors import ReadFailed
from kinesis_assets.ingest.manifest import Landing, decode_all, encode
from kinesis_assets.ingest.task import LandingJob, land_group
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.range import Allowance, Bounds, RangeEnd, ShardRange
from kinesis_assets.kinesis.settings import CONNECTIONS
from kinesis_assets.table import data_file_writer
from kinesis_assets.table.data_file_writer import FileLayout
from kinesis_assets.table.run_files.task_files import Progress, ProgressFiles

ALL_KEYS = ("0", str((1 << 128) - 1))
BEGINNING = Position.parse("TRIM_HORIZON")
KEYS = 1 << 128

ONE_PAGE_PER_ROW_GROUP = FileLayout(row_group_bytes=1)
"""Writes each page as a row group."""


@pytest.fixture
def shards(kinesis, stream):
    """Create the stream with a number of records in each shard, and return the shard ids."""

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
    """Land whole shards in one task."""

    def land(shard_ids, layout=FileLayout(), **bounds):
        job = LandingJob(stream, settings, table.folder, 77, math.inf, layout)
        return land_group(job, [range_of(shard_id, **bounds) for shard_id in shard_ids], Allowance())

    return land


def test_more_shards_than_connections_are_landed_in_one_file(shards, land):
    shard_ids = shards(CONNECTIONS + 6, 3)
    landing = land(shard_ids)
    (file,) = landing.files
    assert file.rows_by_shard == dict.fromkeys(shard_ids, 3)
    assert [(shard.shard_id, shard.stats.rows, shard.end) for shard in landing.shards] == [
        (shard_id, 3, RangeEnd.TIP) for shard_id in shard_ids
    ]


def test_idle_shards_write_no_file(shards, land):
    landing = land(shards(2, 0))
    assert landing.files == ()
    assert [(shard.stats.through, shard.stats.rows) for shard in landing.shards] == [(BEGINNING, 0)] * 2


@pytest.mark.slow
def test_a_failing_shard_ends_only_its_own_range(shards, land, faults):
    first, second = shards(2, 4)
    faults.page_size(2)
    faults.fail(status=400, code="AccessDeniedException", shard_id=first, after=1, times=1)
    landing = land([first, second])
    failed, whole = landing.shards
    assert isinstance(failed.error, ReadFailed)
    assert (failed.stats.rows, failed.end) == (2, None)
    assert (whole.stats.rows, whole.end, whole.error) == (4, RangeEnd.TIP, None)
    assert landing.files[0].rows_by_shard == {first: 2, second: 4}


def test_a_manifest_preserves_the_errors_of_a_landing(shards, land, faults):
    shard_ids = shards(1, 1)
    faults.fail(status=400, code="AccessDeniedException")
    landing = land(shard_ids)
    (again,) = decode_all("clicks", [encode(landing)], Landing)
    assert str(again.shards[0].error) == str(landing.shards[0].error)
    assert type(again.shards[0].error) is ReadFailed


def test_a_writer_error_ends_the_task_and_its_threads(shards, land, faults, monkeypatch):
    shard_ids = shards(20, 6)
    faults.page_size(2)

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(data_file_writer._OpenFile, "_write_row_group", full)
    before = set(threading.enumerate())
    # The kept error keeps its frames and the writer alive, so the threads cannot end by garbage collection.
    with pytest.raises(OSError, match="no space left") as _kept:
        land(shard_ids, ONE_PAGE_PER_ROW_GROUP)
    for thread in set(threading.enumerate()) - before:
        thread.join(SECONDS)
        assert not thread.is_alive(), thread


def test_an_error_outside_the_readings_fails_the_task(shards, land, monkeypatch):
    shard_ids = shards(3, 1)

    def broken(*_):
        raise MemoryError

    monkeypatch.setattr("kinesis_assets.ingest.task.record_batch", broken)
    with pytest.raises(MemoryError):
        land(shard_ids)


class LazyExecutor:
    """Replaces the thread of a file: runs each call only when its result is awaited."""

    def __init__(self, _): ...

    def submit(self, do, *arguments):
        return SimpleNamespace(result=cache(partial(do, *arguments)))

    def shutdown(self, **_): ...


@pytest.mark.slow
def test_a_task_reads_no_further_than_two_row_groups_ahead_of_a_slow_store(
    shards, land, faults, monkeypatch, stream
):
    shard_ids = shards(1, 5)
    faults.page_size(1)
    requested = []  # the number of requested pages when each row group is started
    write = data_file_writer._OpenFile._write_row_group

    def recorded(*arguments):
        # An abandoned call of an earlier test may arrive now.
        requested.append(
            sum((call.operation, call.stream) == ("GetRecords", stream) for call in faults.calls)
        )
        write(*arguments)

    monkeypatch.setattr(data_file_writer, "ThreadPoolExecutor", LazyExecutor)
    monkeypatch.setattr(data_file_writer._OpenFile, "_write_row_group", recorded)
    assert land(shard_ids, ONE_PAGE_PER_ROW_GROUP).shards[0].stats.rows == 5
    assert requested == [2, 3, 4, 5, 5]


class TestProgress:
    """The files about the progress of a task."""

    @pytest.fixture
    def written(self, monkeypatch):
        """What tasks write, in order."""
        written: list[Progress] = []
        write = ProgressFiles.write

        def noted(files, task, progress):
            written.append(progress)
            write(files, task, progress)

        monkeypatch.setattr(ProgressFiles, "write", noted)
        return written

    @pytest.mark.slow
    def test_a_task_writes_how_far_it_is_and_at_its_end_all_that_it_read(
        self, shards, stream, settings, table, faults, written
    ):
        (shard_id,) = shards(1, 30)
        faults.page_size(10)
        faults.before("GetRecords", lambda: wait_until(lambda: written), after=1, times=1)
        timing = replace(settings.timing, stop_poll_seconds=0.01)
        job = LandingJob(
            stream, replace(settings, timing=timing), table.folder, 77, math.inf, progress_interval=0.0
        )
        land_group(job, [range_of(shard_id)], Allowance())
        assert written[0].records < 30
        assert ProgressFiles(table.folder, 77).read().records == 30
        assert written[-1].percent == 100.0

    def test_a_task_that_is_shorter_than_the_interval_writes_nothing(
        self, shards, stream, settings, table, written
    ):
        (shard_id,) = shards(1, 3)
        job = LandingJob(stream, settings, table.folder, 77, math.inf, progress_interval=60.0)
        land_group(job, [range_of(shard_id)], Allowance())
        assert written == []
