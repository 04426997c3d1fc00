"""The same rows are in every table of the comparison, and what a file costs by itself is told from it."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from deltalake import DeltaTable

from benchmarks.harness.measure import Spread
from benchmarks.sections.file_sizes import (
    COUNT,
    DAY,
    HOUR,
    PART_ROWS,
    SHARDS,
    WHOLE,
    Costs,
    Sized,
    day,
    measure,
    told,
    written,
)

MIB = 1 << 20


@pytest.fixture(scope="module")
def rows():
    return day(parts=24)


def test_a_day_is_whole_and_its_shards_alike(rows):
    arrivals = rows["approximate_arrival_timestamp"].to_pylist()
    assert (arrivals[0], max(arrivals) < DAY + timedelta(days=1)) == (DAY, True)
    assert max(arrivals) > DAY + timedelta(hours=23, minutes=50)
    assert Counter(rows["shard_id"].to_pylist()) == {
        f"shardId-{shard:012}": 24 * PART_ROWS // SHARDS for shard in range(SHARDS)
    }
    assert len(set(rows["sequence_number"].to_pylist())) == rows.num_rows
    assert {len(data) for data in rows["data"].to_pylist()} == {1000}


@pytest.mark.parametrize(("parts", "files"), [(1, 24), (5, 5), (24, 1)])
def test_tables_have_the_same_rows_in_files_of_their_size(rows, tmp_path, parts, files):
    of = written(str(tmp_path), rows, parts)
    assert of.files == files == len(DeltaTable(tmp_path).file_uris())
    columns = ["shard_id", "sequence_number"]
    found = DeltaTable(tmp_path).to_pyarrow_table(columns=columns).sort_by("sequence_number")
    assert found.to_pylist() == rows.select(columns).sort_by("sequence_number").to_pylist()


def test_each_reader_reads_what_it_is_said_to():
    costs = measure([1, 24], parts=24, rounds=1, spark=False)
    assert costs.of.keys() == {WHOLE, HOUR, COUNT}
    assert all(by.keys() == {1, 24} for by in costs.of.values())
    assert costs.records == 24 * PART_ROWS


def test_what_a_file_costs_by_itself_is_told_from_what_many_cost_beside_few():
    tables = [Sized("", parts, files, 100 * MIB) for parts, files in ((1, 400), (4, 100), (100, 4))]
    seconds = {of.parts: Spread.of([0.002 * of.files + 0.5]) for of in tables}
    costs = Costs(tables, 200_000, {WHOLE: seconds})
    assert costs.alone(WHOLE) == pytest.approx(0.002)
    assert costs.enough(WHOLE) == pytest.approx(4)  # whose rows take 20 ms
    text = told(costs)
    assert "| all rows | 2.00 | 4.0 | 1.86 |" in text
    assert "| 0.25 | 400 | 6.50 |" in text
    assert "16.0 times the size of that tenth" in text
    assert "cost a reader of them all 1.0 CPU s at most" in text
