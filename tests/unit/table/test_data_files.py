"""Data files: their rows, their statistics in Delta, and copies without some shards."""

from __future__ import annotations

import errno
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Queue

import duckdb
import duckdb_extension_delta
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kinesis_assets.errors import DataFileInvalid
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.records.arrow import record_batch
from kinesis_assets.table import data_file_writer as files_module
from kinesis_assets.table.data_file import FILE_SCHEMA, verify
from kinesis_assets.table.data_file_writer import DataFileWriter, FileLayout, without_shards
from support.attempts import NOON, STREAM, Attempt, freeze_all, land, records, shards

MIDNIGHT = NOON + 12 * 3600


AT_ONCE = FileLayout(row_group_bytes=1)
"""Each batch is written as a row group."""


def read(files, file):
    with files.open_input_file(file.path) as source:
        return pq.ParquetFile(source).read()


def numbers(files, file, shard_id=None):
    return [
        int(row["sequence_number"])
        for row in read(files, file).select(["shard_id", "sequence_number"]).to_pylist()
        if shard_id in (None, row["shard_id"])
    ]


# Writing


def test_a_file_contains_the_records_and_their_batch_id_but_no_partition_column(table):
    (file,) = land(table, 77, {"a": records(1, 3)})
    written = read(table.files, file)
    assert written.schema.equals(FILE_SCHEMA)
    assert written["batch_id"].to_pylist() == [77] * 3
    assert (
        written.drop_columns(["batch_id"]).to_pylist()
        == record_batch(STREAM.name, "a", records(1, 3)).to_pylist()
    )


def test_a_file_reports_its_size_rows_and_arrival_times(table):
    (file,) = land(table, 77, {"a": records(1, 3), "b": records(500, 2)})
    assert file.size == table.files.get_file_info(file.path).size
    assert file.rows_by_shard == {"a": 3, "b": 2}
    assert (file.rows, file.batch_id, file.arrival_date) == (5, 77, "2026-02-02")
    noon = datetime.fromtimestamp(NOON, UTC)
    assert (file.first_arrival, file.last_arrival) == (
        noon + timedelta(milliseconds=1),
        noon + timedelta(milliseconds=501),
    )


def test_a_batch_across_midnight_is_split_by_utc_arrival_date(table):
    before, after = records(1, 3, MIDNIGHT - 0.01), records(5, 2, MIDNIGHT)
    files = land(table, 77, {"a": [*before, *after]})
    assert {file.arrival_date: numbers(table.files, file) for file in files} == {
        "2026-02-02": [1, 2, 3],
        "2026-02-03": [5, 6],
    }
    assert all(file.path.startswith(f"arrival_date={file.arrival_date}/") for file in files)


def test_a_record_at_midnight_belongs_to_the_new_day(table):
    (file,) = land(table, 77, {"a": records(1000, 1, MIDNIGHT)})
    assert (file.arrival_date, file.first_arrival.isoformat()) == ("2026-02-03", "2026-02-03T00:00:00+00:00")


def test_arrival_bounds_are_correct_for_records_out_of_order(table):
    (file,) = land(table, 77, {"a": [*records(900, 1), *records(100, 1), *records(500, 1)]})
    assert [arrival.microsecond // 1000 for arrival in (file.first_arrival, file.last_arrival)] == [100, 900]


def test_shards_share_a_file(table):
    (file,) = land(table, 77, {"a": records(1, 2), "b": records(1, 3)})
    assert numbers(table.files, file, "a") == [1, 2]
    assert numbers(table.files, file, "b") == [1, 2, 3]


def test_a_writer_without_records_creates_no_file(table):
    assert DataFileWriter(table.files, 77).close() == []


def test_file_names_are_unique(table):
    paths = [land(table, 77, {"a": records(1, 1)})[0].path for _ in range(20)]
    assert len(set(paths)) == 20


def test_at_most_four_files_are_open_and_no_row_is_lost(table):
    writer = DataFileWriter(table.files, 77)
    days = [NOON + day * 86_400 for day in range(7)]
    for first, day in enumerate([*days, *days]):
        writer.write("a", record_batch(STREAM.name, "a", records(first + 1, 1, day)))
        assert len(writer._open) <= 4
    files = writer.close()
    assert sorted(number for file in files for number in numbers(table.files, file)) == list(range(1, 15))
    assert {file.arrival_date for file in files} == {f"2026-02-{day:02}" for day in range(2, 9)}


def test_full_row_groups_are_flushed_and_full_files_are_closed(table):
    rows = {name: records(1, 2) for name in "abcdef"}
    files = land(table, 77, rows, FileLayout(row_group_bytes=1, file_bytes=1))
    # A row group in flight is not counted yet, so a file may get one more.
    assert all(len(file.rows_by_shard) <= 2 for file in files)
    assert Counter(
        {shard: rows for file in files for shard, rows in file.rows_by_shard.items()}
    ) == dict.fromkeys("abcdef", 2)
    for file in files:
        with table.files.open_input_file(file.path) as source:
            assert pq.ParquetFile(source).metadata.num_row_groups == len(file.rows_by_shard)


@pytest.fixture
def allow_writes(monkeypatch):
    """An event that blocks the writing of row groups until it is set, at the latest after the test."""
    allowed = threading.Event()
    write = files_module._OpenFile._write_row_group

    def late(*arguments):
        assert allowed.wait(10)
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
    assert seen.get(timeout=10) == "waits"
    assert (len(submitted), started) == (1, [1, 2])
    assert not writing.done()
    allow_writes.set()
    writing.result(10)
    (file,) = writer.close()
    assert numbers(table.files, file) == [1, 2, 3, 4, 5]


def test_a_file_is_opened_while_its_first_records_are_collected(table, monkeypatch):
    allowed = threading.Event()
    begin = files_module._OpenFile._begin

    def late(file):
        assert allowed.wait(10)
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
        assert allowed.wait(10)
        return end(*arguments)

    monkeypatch.setattr(files_module._OpenFile, "_end", late)
    writer = DataFileWriter(table.files, 77, FileLayout(open_files=1))
    for day in range(2):  # the second day's file replaces the first day's
        writer.write("a", record_batch(STREAM.name, "a", records(day + 1, 1, NOON + 86_400 * day)))
    allowed.set()
    assert [file.rows for file in writer.close()] == [1, 1]


@pytest.mark.parametrize(("row_group", "size"), [(1, 1), (1, 1 << 20), (3000, 1), (1 << 20, 1 << 20)])
@pytest.mark.parametrize(("open_files", "days"), [(1, 3), (2, 3), (4, 1)])
def test_each_row_is_written_once_to_slow_storage(table, monkeypatch, row_group, size, open_files, days):
    chance = random.Random(7)
    for name in ("_begin", "_write_row_group", "_end"):
        do = getattr(files_module._OpenFile, name)

        def late(*arguments, do=do):
            time.sleep(chance.random() / 1000)
            return do(*arguments)

        monkeypatch.setattr(files_module._OpenFile, name, late)
    writer = DataFileWriter(table.files, 77, FileLayout(row_group, size, open_files))
    for first in range(1, 31):
        for shard_id in ("a", "b", "c"):
            day = NOON + 86_400 * (first // 7 % days)
            writer.write(shard_id, record_batch(STREAM.name, shard_id, records(first, 1, day)))
    files = writer.close()
    assert len(files) >= days
    for file in files:
        assert Counter(read(table.files, file)["shard_id"].to_pylist()) == file.rows_by_shard
    for shard_id in ("a", "b", "c"):
        found = [number for file in files for number in numbers(table.files, file, shard_id)]
        assert sorted(found) == list(range(1, 31))


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


def test_collected_records_become_one_row_group(table):
    writer = DataFileWriter(table.files, 77)
    for first in range(1, 100):
        writer.write("a", record_batch(STREAM.name, "a", records(first, 1)))
    (file,) = writer.close()
    with table.files.open_input_file(file.path) as source:
        assert pq.ParquetFile(source).metadata.num_row_groups == 1


# Statistics in Delta


@pytest.fixture
def filled(table):
    """A table of two commits: shards a and b at noon, then a at midnight."""
    table.create_if_missing()
    for counts, seconds in (({"a": 3, "b": 2}, NOON), ({"a": 1}, MIDNIGHT)):
        expected = freeze_all(table, shards("a", "b"), Position.parse("TRIM_HORIZON"))
        attempt = Attempt(table, expected, {})
        attempt.moved = Attempt(table, expected, counts).moved
        first = 1 if seconds == NOON else 4
        attempt.files = land(
            table, attempt.batch_id, {name: records(first, count, seconds) for name, count in counts.items()}
        )
        attempt.commit()
    return table


def test_statistics_describe_the_rows_of_a_file(filled):
    actions = pa.table(DeltaTable(filled.uri).get_add_actions(flatten=True)).to_pylist()
    found = {action["partition.arrival_date"].isoformat(): action for action in actions}
    noon = found["2026-02-02"]
    assert noon["num_records"] == 5
    assert (noon["min.shard_id"], noon["max.shard_id"]) == ("a", "b")
    assert noon["min.batch_id"] == noon["max.batch_id"]
    arrivals = [noon[f"{bound}.approximate_arrival_timestamp"] for bound in ("min", "max")]
    assert arrivals == [datetime.fromtimestamp(NOON, UTC) + timedelta(milliseconds=ms) for ms in (1, 3)]
    assert {name: noon[f"null_count.{name}"] for name in ("shard_id", "batch_id")} == {
        "shard_id": 0,
        "batch_id": 0,
    }


@pytest.mark.parametrize(
    ("column", "operator", "value", "rows"),
    [
        ("shard_id", "=", "a", 4),
        ("shard_id", "=", "b", 2),
        ("shard_id", ">", "b", 0),
        ("approximate_arrival_timestamp", ">=", datetime.fromtimestamp(NOON + 0.003, UTC), 2),
        ("approximate_arrival_timestamp", "<=", datetime.fromtimestamp(NOON + 0.001, UTC), 2),
        ("approximate_arrival_timestamp", ">", datetime.fromtimestamp(NOON + 0.003, UTC), 1),
        ("arrival_date", "=", datetime.fromtimestamp(MIDNIGHT, UTC).date(), 1),
        ("batch_id", ">", 0, 6),
    ],
)
def test_filters_that_use_statistics_find_every_row(filled, column, operator, value, rows):
    found = DeltaTable(filled.uri).to_pyarrow_table(filters=[(column, operator, value)])
    assert found.num_rows == rows


@pytest.fixture(scope="module")
def duck():
    """DuckDB with its Delta extension."""
    (extension,) = Path(duckdb_extension_delta.__path__[0]).glob("extensions/*/delta.duckdb_extension")
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.load_extension(str(extension))
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("true", 6),
        ("shard_id = 'a'", 4),
        ("approximate_arrival_timestamp >= '2026-02-02 12:00:00.003+00'", 2),
        ("approximate_arrival_timestamp <= '2026-02-02 12:00:00.001+00'", 2),
        ("approximate_arrival_timestamp > '2026-02-02 12:00:00.003+00'", 1),
        ("arrival_date = DATE '2026-02-03'", 1),
    ],
)
def test_duckdb_finds_the_same_rows(filled, duck, condition, rows):
    query = f"SELECT count(*) FROM delta_scan(?) WHERE {condition}"  # noqa: S608  # the test's own text
    assert duck.execute(query, [filled.folder.uri]).fetchone() == (rows,)


# Verifying


def test_an_intact_file_passes_verification(table):
    (file,) = land(table, 77, {"a": records(1, 3)})
    verify(table.uri, table.files, file)


def test_a_missing_file_is_invalid(table):
    (file,) = land(table, 77, {"a": records(1, 3)})
    table.files.delete_file(file.path)
    with pytest.raises(DataFileInvalid, match=f"{file.path}: {file.size} bytes were written, nothing found"):
        verify(table.uri, table.files, file)


def test_a_truncated_file_is_invalid(table):
    (file,) = land(table, 77, {"a": records(1, 3)})
    path = Path(table.uri, file.path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataFileInvalid, match=f"{file.size - 1} bytes found"):
        verify(table.uri, table.files, file)


def test_a_file_with_an_unexpected_number_of_rows_is_invalid(table):
    (file,) = land(table, 77, {"a": records(1, 3)})
    claimed = msgspec.structs.replace(file, rows_by_shard={"a": 4})
    with pytest.raises(DataFileInvalid, match="4 rows were written, 3 found"):
        verify(table.uri, table.files, claimed)


def test_a_damaged_file_is_invalid(table):
    (file,) = land(table, 77, {"a": records(1, 3)})
    Path(table.uri, file.path).write_bytes(b"\0" * file.size)
    with pytest.raises(DataFileInvalid):
        verify(table.uri, table.files, file)


# Removing shards


@pytest.fixture
def three_shards(table):
    """A file of three shards whose records alternate."""
    writer = DataFileWriter(table.files, 77)
    for first in range(1, 3000, 1000):
        for shard_id in "abc":
            writer.write(shard_id, record_batch(STREAM.name, shard_id, records(first, 1000)))
    (file,) = writer.close()
    return file


@pytest.mark.parametrize("removed", [{"a"}, {"b"}, {"c"}, {"a", "c"}])
def test_removing_shards_keeps_exactly_the_others(table, three_shards, removed):
    (copy,) = without_shards(table.files, three_shards, removed)
    kept = {"a", "b", "c"} - removed
    assert copy.rows_by_shard == dict.fromkeys(sorted(kept), 3000)
    for shard_id in "abc":
        assert numbers(table.files, copy, shard_id) == (list(range(1, 3001)) if shard_id in kept else [])
    verify(table.uri, table.files, copy)


def test_a_copy_has_a_new_name_and_the_batch_date_and_columns_of_the_original(table, three_shards):
    (copy,) = without_shards(table.files, three_shards, {"a"})
    assert copy.path != three_shards.path
    assert (copy.batch_id, copy.arrival_date) == (three_shards.batch_id, three_shards.arrival_date)
    whole = read(table.files, three_shards)
    kept = whole.filter(pa.compute.not_equal(whole["shard_id"], "a"))
    order = [("shard_id", "ascending"), ("sequence_number", "ascending")]
    assert read(table.files, copy).sort_by(order).equals(kept.sort_by(order))


def test_removing_shards_does_not_change_the_original_file(table, three_shards):
    before = Path(table.uri, three_shards.path).read_bytes()
    without_shards(table.files, three_shards, {"a"})
    assert Path(table.uri, three_shards.path).read_bytes() == before


def test_a_file_without_rows_of_the_removed_shards_is_not_copied(table, three_shards):
    assert without_shards(table.files, three_shards, {"d"}) == [three_shards]
    assert without_shards(table.files, three_shards, set()) == [three_shards]


def test_a_file_with_only_rows_of_the_removed_shards_has_no_copy(table, three_shards):
    assert without_shards(table.files, three_shards, {"a", "b", "c", "d"}) == []


def test_a_copy_that_fails_leaves_no_thread(table, three_shards):
    table.files.delete_file(three_shards.path)
    before = set(threading.enumerate())
    # The error keeps its frames alive, and with them the copy.
    with pytest.raises(FileNotFoundError) as _kept:
        without_shards(table.files, three_shards, {"a"})
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive(), thread


def test_arrival_bounds_of_a_copy_are_those_of_its_rows(table):
    (file,) = land(table, 77, {"a": records(1, 1), "b": records(500, 1)})
    (copy,) = without_shards(table.files, file, {"a"})
    assert copy.first_arrival == copy.last_arrival == file.last_arrival
