"""What a writer of data files writes, and when it closes files."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq

from kinesis_assets.kinesis.records.records import record_batch
from kinesis_assets.table.data_file import FILE_SCHEMA
from kinesis_assets.table.data_file_writer import DataFileWriter, FileLayout
from support.attempts import NOON, STREAM, land, records
from support.data_files import MIDNIGHT, numbers, read


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


def test_a_file_that_has_been_open_for_long_gets_no_further_rows(table):
    writer = DataFileWriter(table.files, 77, FileLayout(open_seconds=0.0))
    for first in (1, 2):
        writer.write("a", record_batch(STREAM.name, "a", records(first, 1)))
    assert [numbers(table.files, file) for file in writer.close()] == [[1], [2]]


def test_collected_records_become_one_row_group(table):
    writer = DataFileWriter(table.files, 77)
    for first in range(1, 100):
        writer.write("a", record_batch(STREAM.name, "a", records(first, 1)))
    (file,) = writer.close()
    with table.files.open_input_file(file.path) as source:
        assert pq.ParquetFile(source).metadata.num_row_groups == 1
