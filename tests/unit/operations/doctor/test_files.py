"""Findings about data files."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from pathlib import Path
from zlib import crc32

import pyarrow.parquet as pq
import pytest

from kinesis_assets.operations.doctor.row_scan import Counted, Scan
from kinesis_assets.operations.replay.outcome import ReplayState
from support.mentions import assert_mentions
from support.replays import states

KEYS = ["shard_id", "sequence_number", "sub_sequence_number"]


def read_rows(bench):
    """Return what scans data files as the Spark job does, in this process."""

    def scan(files):
        counted, keys = {}, Counter()
        for path, _ in files:
            with bench.table.files.open_input_file(path) as source:
                rows = pq.read_table(source, columns=["batch_id", *KEYS]).to_pylist()
            for batch_id, shard_id, number, sub in (tuple(row.values()) for row in rows):
                one = Counted(1, crc32(f"{number}:{sub}".encode()))
                counted[batch_id, shard_id] = counted.get((batch_id, shard_id), Counted()) + one
                keys[shard_id, number, sub] += 1
        return Scan(counted, Counter(shard_id for (shard_id, *_), count in keys.items() if count > 1))

    return scan


def keys_of(bench):
    return [[row[name] for name in KEYS] for row in bench.rows]


def delete_file(bench, shard_id, number):
    """Delete the data file with the row of a record. Return its name, and the numbers of its rows."""
    for file in Path(bench.table.uri).glob("arrival_date=*/*.parquet"):
        numbers = pq.ParquetFile(file).read(["shard_id", "sequence_number"]).to_pylist()
        if {"shard_id": shard_id, "sequence_number": number} in numbers:
            file.unlink()
            return file.name, [row["sequence_number"] for row in numbers if row["shard_id"] == shard_id]
    raise AssertionError(number)


def test_files_without_a_version_are_reported_with_the_age_of_the_oldest(ingested):
    folder = Path(ingested.table.uri, "arrival_date=2026-01-01")
    folder.mkdir()
    for hours in (1, 3, 2):
        orphan = folder / f"part-{hours}.parquet"
        orphan.write_bytes(b"12345")
        os.utime(orphan, (time.time() - hours * 3600, time.time() - hours * 3600))
    assert ingested.levels()["files"] == {"info"}
    (sentence,) = ingested.sentences("files")
    assert_mentions(sentence, "3 files", "15 bytes", "arrival_date=2026-01-01/part-3.parquet", " 3:0")


@pytest.mark.parametrize("checkpoint", [False, True], ids=["commits", "checkpoint"])
def test_a_file_of_an_older_version_is_not_reported(ingested, checkpoint):
    ingested.delta.delete("shard_id = 'none' OR sub_sequence_number = 0")
    if checkpoint:
        ingested.delta.create_checkpoint()
        for entry in Path(ingested.table.uri, "_delta_log").glob("0*[0-9].json"):
            entry.unlink()
    assert ingested.levels()["files"] == {"ok"}


def test_a_missing_file_of_the_current_version_is_a_problem(ingested):
    (first, *_) = sorted(Path(ingested.table.uri).glob("arrival_date=*/*.parquet"))
    first.unlink()
    ((check, _, sentence),) = ingested.problems()
    assert check == "files"
    assert first.name in sentence


def test_rows_of_a_missing_file_are_missing_and_those_of_the_others_are_read(ingested):
    shard_id, number, _ = ingested.acknowledged[5]  # of the second of three commits
    name, numbers = delete_file(ingested, shard_id, number)
    problems = ingested.problems(read_rows=read_rows(ingested))
    (sentence,) = (sentence for check, _, sentence in problems if check == "files")
    assert_mentions(sentence, name, "restore it", "`DeltaTable.repair`", "--rows")
    (sentence,) = (sentence for check, shard, sentence in problems if (check, shard) == ("rows", shard_id))
    assert_mentions(sentence, "3 rows", "3 of them", f"replay {numbers[0]} to {numbers[-1]}")
    assert {check for check, *_ in problems} == {"files", "rows"}


@pytest.mark.slow
@pytest.mark.parametrize("record", [5, -1], ids=["of the second commit", "of the last commit"])
def test_the_rows_of_a_lost_file_are_added_by_a_replay_after_the_table_was_repaired(growing, record):
    shard_id, number, _ = growing.acknowledged[record]
    before = keys_of(growing)
    delete_file(growing, shard_id, number)
    growing.delta.repair()
    missing = len(before) - len(keys_of(growing))
    problems = growing.problems(read_rows=read_rows(growing))
    assert {check for check, *_ in problems} == {"rows"}
    added = 0
    for _, shard, sentence in problems:
        start, end = re.search(r"replay (\d+) to (\d+)", sentence).groups()
        ((state, rows),) = states(growing.replay(start, end, shard)).values()
        assert state is ReplayState.FILLED
        added += rows
    assert (added, keys_of(growing)) == (missing, before)
    assert growing.problems(read_rows=read_rows(growing)) == []
    growing.put(15)
    growing.run()
    growing.assert_exactly_once()
