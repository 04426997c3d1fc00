"""Compaction of a derived table: which files it merges, and what it writes."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field

from kinesis_assets.derive import maintenance, write
from kinesis_assets.derive.data_files import BATCH_COLUMN
from kinesis_assets.derive.maintenance import compact_partition
from kinesis_assets.errors import DataFileInvalid, TableUnsuitable
from kinesis_assets.table.data_file import WITHOUT_PARTITIONS
from kinesis_assets.table.maintenance.steps import DEFAULT_LIMITS, State
from support.plain_derived import PlainDerived, flatten, steps_of
from support.readers import READERS, Filter, found_by

pytestmark = pytest.mark.slow

SMALL_FILES = DEFAULT_LIMITS.small_files


def test_the_small_files_of_a_partition_are_merged_into_one(busy):
    rows, batch_ids = busy.rows, busy.batch_ids
    step = steps_of(busy)["compact", "part=a"]
    assert (step.state, step.files) == (State.DONE, SMALL_FILES)
    assert len(busy.active) == 2
    assert (busy.rows, busy.batch_ids) == (rows, batch_ids)


def test_few_small_files_are_not_merged(derived):
    for number in range(SMALL_FILES - 1):
        derived.append((number, 0, "a"))
    assert {step for step, _ in steps_of(derived)} == {"checkpoint"}


def test_a_table_without_partitions_is_compacted_as_a_whole(tmp_path):
    derived = PlainDerived(tmp_path / "whole", partitioned=False)
    for number in range(SMALL_FILES):
        derived.append((number, 0, "a" if number else None))
    rows = derived.rows
    assert steps_of(derived)["compact", WITHOUT_PARTITIONS].files == SMALL_FILES
    assert (derived.rows, len(derived.active)) == (rows, 1)


def test_the_partition_of_null_is_compacted(derived):
    for number in range(SMALL_FILES):
        derived.append((number, 0, None))
    rows = derived.rows
    assert ("compact", "part=__HIVE_DEFAULT_PARTITION__") in steps_of(derived)
    assert (derived.rows, len(derived.active)) == (rows, 1)


def test_rows_of_files_without_a_new_column_have_null_in_it(busy):
    note = {"name": "note", "type": "string", "nullable": True, "metadata": {}}
    busy.table.snapshot().delta.alter.add_columns([Field.from_json(json.dumps(note))])
    rows = busy.rows
    steps_of(busy)
    assert busy.rows == rows
    assert {*DeltaTable(busy.table.uri).to_pyarrow_table()["note"].to_pylist()} == {None}


def test_a_merged_file_has_exact_statistics(busy):
    steps_of(busy)
    (file,) = (file for file in busy.table.snapshot().data_files(["key"]) if file.partition["part"] == "a")
    assert (file.smallest["key"], file.greatest["key"], file.rows) == (0, SMALL_FILES - 1, SMALL_FILES)
    assert pq.read_metadata(f"{busy.table.uri}/{file.path}").num_rows == SMALL_FILES


def test_a_merged_file_is_compressed_with_zstd(busy):
    before = busy.active
    steps_of(busy)
    (merged,) = busy.active - before
    group = pq.read_metadata(f"{busy.table.uri}/{merged}").row_group(0)
    assert {group.column(number).compression for number in range(group.num_columns)} == {"ZSTD"}
    assert merged.endswith(".zstd.parquet")


def test_a_merged_file_changes_no_data_in_the_log(busy):
    """Whoever streams the log of the table does not get the rows again."""
    version = busy.table.snapshot().delta.version()
    compact_partition(busy.table, "part=a")
    with busy.table.files.open_input_file(f"_delta_log/{version + 1:020}.json") as source:
        actions = [msgspec.json.decode(line) for line in source.read().splitlines()]
    found = [each[kind] for each in actions for kind in ("add", "remove") if kind in each]
    assert len(found) == SMALL_FILES + 1
    assert {each["dataChange"] for each in found} == {False}


def test_a_dry_run_plans_the_compaction_and_writes_nothing(busy):
    version, active = busy.table.snapshot().delta.version(), busy.active
    planned = steps_of(busy, dry_run=True)
    assert [(step.state, step.files) for step in planned.values()] == [(State.PLANNED, SMALL_FILES)]
    assert (busy.table.snapshot().delta.version(), busy.active) == (version, active)


def test_a_second_maintenance_finds_nothing_to_do(busy):
    steps_of(busy)
    assert {step for step, _ in steps_of(busy)} == {"checkpoint"}


def test_a_file_with_other_rows_than_its_log_names_is_not_replaced(busy, monkeypatch):
    real = write.rows_of_file

    def truncated(*arguments):
        yield from list(real(*arguments))[1:]

    monkeypatch.setattr(write, "rows_of_file", truncated)
    active = busy.active
    with pytest.raises(DataFileInvalid):
        compact_partition(busy.table, "part=a")
    assert busy.active == active


def test_a_table_whose_files_cannot_be_replaced_is_not_compacted(busy):
    busy.table.snapshot().delta.alter.set_table_properties({"delta.appendOnly": "true"})
    active = busy.active
    steps = steps_of(busy)
    assert steps["compact", WITHOUT_PARTITIONS].state is State.LEFT
    assert "appendOnly" in steps["compact", WITHOUT_PARTITIONS].reason
    assert ("checkpoint", "_delta_log") in steps
    assert busy.active == active
    with pytest.raises(TableUnsuitable):
        compact_partition(busy.table, "part=a")


# Files outside of folders, as older releases wrote them


@pytest.fixture
def flat(derived):
    """A table with files outside of folders in two partitions, and one in its folder."""
    derived.append((1, 1, "a/b"), (2, 2, None))
    derived.append((3, 3, None))
    flatten(derived)
    derived.append((4, 4, "a/b"))
    return derived


@pytest.mark.parametrize("reader", sorted(READERS.keys() - {"Polars"}))
def test_files_outside_of_folders_stay_readable(flat, reader):
    rows = found_by(reader, flat.table.uri, ("key", "part"), Filter("part", "a/b"))
    assert rows == {(1, "a/b"): 1, (4, "a/b"): 1}


def test_an_upsert_replaces_rows_outside_of_folders(flat):
    flat.upsert((1, 5, "a/b"), (2, 5, "c"))
    assert flat.rows == dict.fromkeys([(1, 5, "a/b"), (2, 5, "c"), (3, 3, None), (4, 4, "a/b")], 1)


@pytest.mark.parametrize("small", [0, 1 << 20], ids=["large", "small"])
def test_maintenance_moves_files_to_the_folders_of_their_partitions(flat, monkeypatch, small):
    monkeypatch.setattr(maintenance, "SMALL_BYTES", small)
    rows, batch_ids = flat.rows, flat.batch_ids
    assert {of for step, of in steps_of(flat) if step == "compact"} == {
        "part=a%2Fb",
        "part=__HIVE_DEFAULT_PARTITION__",
    }
    assert all(path.startswith("part=") for path in flat.active)
    assert (flat.rows, flat.batch_ids) == (rows, batch_ids)
    assert found_by("Polars", flat.table.uri, ("key",), Filter("part", "a/b")) == {(1,): 1, (4,): 1}
    assert not any(step == "compact" for step, _ in steps_of(flat))


def facts(file):
    """Return all facts of a file but its path."""
    return repr(replace(file, path=""))


def test_a_moved_file_keeps_its_statistics(flat, monkeypatch):
    monkeypatch.setattr(maintenance, "SMALL_BYTES", 0)
    columns = ["key", "value", BATCH_COLUMN]
    before = flat.table.snapshot().data_files(columns)
    steps_of(flat)
    after = flat.table.snapshot().data_files(columns)
    assert sorted(map(facts, before)) == sorted(map(facts, after))
