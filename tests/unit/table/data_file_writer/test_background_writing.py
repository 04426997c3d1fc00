"""Writing of row groups in the background: order, limits and errors."""

from __future__ import annotations

import errno
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from queue import Queue

import pytest

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.kinesis.records.records import record_batch
from kinesis_assets.table import data_file_writer as files_module
from kinesis_assets.table.data_file_writer import DataFileWriter, FileLayout
from support.attempts import NOON, STREAM, records
from support.data_files import numbers, read

AT_ONCE = FileLayout(row_group_bytes=1)
"""Each batch is written as a row group."""


@pytest.fixture
def allow_writes(monkeypatch):
    """An event that blocks the writing of row groups until it is set, at the latest after the test."""
    allowed = threading.Event()
    write = files_module._OpenFile._write_row_group

    def late(*arguments):
        assert allowed.wait(SECONDS)
        write(*arguments)

    monkeypatch.setattr(files_module._OpenFile, "_write_row_group", late)
    yield allowed
    allowed.set()


def test_a_row_group_is_collected_while_the_previous_one_is_written(table, allow_writes):
    batch = record_batch(STREAM.name, "a", records(1, 2))
    writer = DataFileWriter(table.files, 77, FileLayout(row_group_bytes=2 * batch.get_total_buffer_size()))
    for _ in range(3):  # two are in flight, the third is being collected
        writer.write("a", batch)
    allow_writes.set()
    (file,) = writer.close()
    assert file.rows == 6


def test_write_blocks_while_one_row_group_is_written_and_the_next_is_full(table, allow_writes, monkeypatch):
    submitted, started, seen = [], [], Queue()

    class Thread(ThreadPoolExecutor):
        """Records the submitted row groups, and reports when a caller waits for one."""

        def submit(self, do, *arguments):
            future = super().submit(do, *arguments)
            if do.__func__ is files_module._OpenFile._write_row_group:
                submitted.append(future)
                result = future.result

                def noted():
                    if not future.done():
                        seen.put("waits")
                    return result()

                future.result = noted
            return future

    def write_all():
        for number in range(1, 6):
            started.append(number)
            writer.write("a", record_batch(STREAM.name, "a", records(number, 1)))
        seen.put("has written all")

    monkeypatch.setattr(files_module, "ThreadPoolExecutor", Thread)
    writer = DataFileWriter(table.files, 77, AT_ONCE)
    other = ThreadPoolExecutor(1)
    writing = other.submit(write_all)
    other.shutdown(wait=False)
    assert seen.get(timeout=SECONDS) == "waits"
    assert (len(submitted), started) == (1, [1, 2])
    assert not writing.done()
    allow_writes.set()
    writing.result(SECONDS)
    (file,) = writer.close()
    assert numbers(table.files, file) == [1, 2, 3, 4, 5]


def test_a_file_is_opened_while_its_first_records_are_collected(table, monkeypatch):
    allowed = threading.Event()
    begin = files_module._OpenFile._begin

    def late(file):
        assert allowed.wait(SECONDS)
        begin(file)

    monkeypatch.setattr(files_module._OpenFile, "_begin", late)
    writer = DataFileWriter(table.files, 77)
    writer.write("a", record_batch(STREAM.name, "a", records(1, 2)))
    allowed.set()
    assert writer.close()[0].rows == 2


def test_a_file_is_closed_while_another_is_written(table, monkeypatch):
    allowed = threading.Event()
    end = files_module._OpenFile._end

    def late(*arguments):
        assert allowed.wait(SECONDS)
        return end(*arguments)

    monkeypatch.setattr(files_module._OpenFile, "_end", late)
    writer = DataFileWriter(table.files, 77, FileLayout(open_files=1))
    for day in range(2):  # the second day's file replaces the first day's
        writer.write("a", record_batch(STREAM.name, "a", records(day + 1, 1, NOON + 86_400 * day)))
    allowed.set()
    assert [file.rows for file in writer.close()] == [1, 1]


@pytest.mark.parametrize(("row_group", "size"), [(1, 1), (1, 1 << 20), (3000, 1), (1 << 20, 1 << 20)])
@pytest.mark.parametrize(("open_files", "days"), [(1, 3), (2, 3), (4, 1)])
@pytest.mark.slow
def test_each_row_is_written_once_to_slow_storage(table, monkeypatch, row_group, size, open_files, days):
    chance = random.Random(7)
    for name in ("_begin", "_write_row_group", "_end"):
        do = getattr(files_module._OpenFile, name)

        def late(*arguments, do=do):
            time.sleep(chance.random() / 1000)
            return do(*arguments)

        monkeypatch.setattr(files_module._OpenFile, name, late)
    writer = DataFileWriter(table.files, 77, FileLayout(row_group, size, open_files))
    for first in range(1, 16):
        for shard_id in ("a", "b", "c"):
            day = NOON + 86_400 * (first // 5 % days)
            writer.write(shard_id, record_batch(STREAM.name, shard_id, records(first, 1, day)))
    files = writer.close()
    assert len(files) >= days
    for file in files:
        assert Counter(read(table.files, file)["shard_id"].to_pylist()) == file.rows_by_shard
    for shard_id in ("a", "b", "c"):
        found = [number for file in files for number in numbers(table.files, file, shard_id)]
        assert sorted(found) == list(range(1, 16))


@pytest.mark.slow
def test_at_most_one_file_more_than_the_limit_is_open_while_files_are_closed(table, monkeypatch):
    open_now, open_counts = set(), []
    open_file = files_module._OpenFile
    begin, end = open_file._begin, open_file._end

    def note_begin(file):
        begin(file)
        open_now.add(file)
        open_counts.append(len(open_now))

    def note_end(file, *arguments):
        time.sleep(0.02)  # time for other files to be opened
        ended = end(file, *arguments)
        open_now.remove(file)
        return ended

    monkeypatch.setattr(open_file, "_begin", note_begin)
    monkeypatch.setattr(open_file, "_end", note_end)
    writer = DataFileWriter(table.files, 77)
    for day in range(12):
        writer.write("a", record_batch(STREAM.name, "a", records(day + 1, 1, NOON + 86_400 * day)))
    assert sum(file.rows for file in writer.close()) == 12
    assert max(open_counts) <= FileLayout().open_files + 1


@pytest.mark.parametrize("fails", ["_begin", "_write_row_group", "_end"])
@pytest.mark.parametrize("more", [0, 1, 3])
def test_an_error_of_a_file_is_raised_by_close_at_the_latest(table, monkeypatch, fails, more):
    def refused(*_):
        raise OSError(errno.ENOSPC, "no space")

    def land_all():
        for number in range(more + 1):
            writer.write("a", record_batch(STREAM.name, "a", records(number + 1, 1)))
        writer.close()

    monkeypatch.setattr(files_module._OpenFile, fails, refused)
    writer = DataFileWriter(table.files, 77, AT_ONCE)
    with pytest.raises(OSError, match="no space"):
        land_all()


def test_a_failed_row_group_raises_even_if_later_ones_succeed(table, monkeypatch):
    write, count = files_module._OpenFile._write_row_group, iter(range(9))

    def first_fails(*arguments):
        if next(count) == 0:
            raise OSError(errno.ENOSPC, "no space")
        write(*arguments)

    large, small = (record_batch(STREAM.name, "a", records(1, count)) for count in (1000, 1))
    monkeypatch.setattr(files_module._OpenFile, "_write_row_group", first_fails)
    writer = DataFileWriter(table.files, 77, FileLayout(row_group_bytes=large.get_total_buffer_size()))
    writer.write("a", large)
    writer.write("a", small)
    with pytest.raises(OSError, match="no space"):
        writer.close()
