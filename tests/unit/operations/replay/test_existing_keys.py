"""Lookup of existing rows by their keys, and which data files it opens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec
import pytest
from deltalake import DeltaTable

from kinesis_assets.kinesis.records.records import Record, record_batch
from kinesis_assets.kinesis.stream import Shard, StreamIdentity, StreamListing, StreamSummary
from kinesis_assets.operations.replay.task import ExistingKeys
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.commits.commit import freeze
from kinesis_assets.table.data_file import FileStats
from kinesis_assets.table.data_file_writer import DataFileWriter
from kinesis_assets.table.positions.amendments import Amendment

if TYPE_CHECKING:
    from collections.abc import Sequence

NOON = datetime(2026, 2, 2, 12, tzinfo=UTC)
STREAM = StreamIdentity("arn:aws:kinesis:us-east-1:000000000000:stream/orders", NOON)
FILE = FileStats("path", NOON.date(), NOON, NOON + timedelta(minutes=1), "shard-2", "shard-4")


def record(number: int, sub: int = 0, at: datetime = NOON) -> Record:
    return Record(str(number), at.timestamp(), b"", "k", sub)


@pytest.fixture
def commit(table):
    """Commit rows to the table, as one file per call."""
    summary = StreamSummary(STREAM, NOON, 24)
    freeze(table, StreamListing(summary, [Shard("a", (), ("0", "9"), "1")]), {})

    def commit(shard_id: str, records: Sequence[Record]) -> None:
        batch_id = new_id()
        writer = DataFileWriter(table.files, batch_id)
        writer.write(shard_id, record_batch("orders", shard_id, records))
        amendment = Amendment(format=1, commit_id=new_id(), previous=None, batch_id=batch_id, at=NOON)
        table.snapshot().commit(writer.close(), identity=STREAM, amendment=amendment)

    return commit


def missing(table, shard_id: str, records: Sequence[Record], **changed) -> list[bool]:
    files = [msgspec.structs.replace(file, **changed) for file in table.snapshot().file_stats()]
    return (
        ExistingKeys(table.files, files)
        .missing(shard_id, record_batch("orders", shard_id, records))
        .to_pylist()
    )


def test_a_row_is_identified_by_shard_sequence_number_and_sub_sequence_number(table, commit):
    commit("a", [record(1), record(2, 0), record(2, 1)])
    commit("b", [record(3)])
    page = [record(1), record(2, 0), record(2, 1), record(2, 2), record(3)]
    assert missing(table, "a", page) == [False, False, False, True, True]


def test_rows_in_files_rewritten_by_other_writers_are_found(table, commit):
    commit("a", [record(1), record(2)])
    commit("a", [record(3)])
    DeltaTable(table.uri).optimize.compact()
    DeltaTable(table.uri).delete("sequence_number = '2'")
    assert missing(table, "a", [record(1), record(2), record(3)]) == [False, True, False]


def test_files_without_statistics_are_read(table, commit):
    commit("a", [record(1)])
    no_statistics = dict.fromkeys(("first_arrival", "last_arrival", "first_shard_id", "last_shard_id"))
    assert missing(table, "a", [record(1)], **no_statistics) == [False]


def test_a_page_across_midnight_is_looked_up_in_both_partitions(table, commit):
    late, early = NOON + timedelta(hours=11, minutes=59), NOON + timedelta(hours=12, minutes=1)
    commit("a", [record(1, at=late), record(2, at=early)])
    page = [record(1, at=late), record(2, at=early), record(3, at=early)]
    assert missing(table, "a", page) == [False, False, True]


def test_only_files_that_may_contain_rows_of_the_page_are_opened(table, commit):
    commit("a", [record(1)])
    commit("a", [record(2, at=NOON + timedelta(minutes=1))])
    commit("b", [record(3)])
    files = list(table.snapshot().file_stats())
    opened = []

    class Folder:
        def open_input_file(self, path):
            opened.append(path)
            return table.files.open_input_file(path)

    page = record_batch("orders", "a", [record(1)])
    assert ExistingKeys(Folder(), files).missing("a", page).to_pylist() == [False]
    assert len(files) == 3
    assert len(opened) == 1


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [((-2, -1), False), ((-1, 0), True), ((1, 2), True), ((2, 3), False), ((-9, None), True)],
)
def test_a_file_may_contain_arrivals_that_overlap_its_statistics(minutes, expected):
    first, last = (None if minute is None else NOON + timedelta(minutes=minute) for minute in minutes)
    assert first is not None
    assert FILE.may_contain_arrivals(first, last) is expected


@pytest.mark.parametrize(
    ("shard_id", "expected"), [("shard-1", False), ("shard-2", True), ("shard-4", True), ("shard-5", False)]
)
def test_a_file_may_contain_shards_within_its_statistics(shard_id, expected):
    assert FILE.may_contain_shard(shard_id) is expected
