"""A source whose files or schema changed since a consumer last read it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import functions as F  # noqa: N812

from kinesis_assets.derive.derivation import CheckedRows, Upsert
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.policy import OnDeleted
from kinesis_assets.derive.rebuild import rebuild
from kinesis_assets.errors import (
    BadRecordsRefused,
    InvalidInput,
    SchemaChangeRefused,
    SourceCommitsMissing,
    TableOfAnotherSource,
    TableRewritten,
    TableUnsuitable,
)
from kinesis_assets.table.positions.positions_chain import POSITIONS_FOLDER, ChainPolicy
from support.derived import order, orders
from support.formats import derived_at, derived_rows
from support.shifted_clock import ShiftedClock


def land(bench, *orders_):
    bench.put(*orders_)
    bench.run()


def test_rows_whose_files_were_compacted_and_vacuumed_are_consumed_once(bench, derived):
    land(bench, order(0))
    derived.run()
    for number in range(1, 6):
        land(bench, order(number))
    DeltaTable(bench.table.uri).optimize.compact()
    DeltaTable(bench.table.uri).vacuum(0, dry_run=False, enforce_retention_duration=False)
    DeltaTable(bench.table.uri).create_checkpoint()
    derived.run()
    assert derived.values("id") == [0, 1, 2, 3, 4, 5]


def test_history_in_compacted_files_is_consumed_in_steps_once(bench, derived):
    for number in range(4):
        land(bench, order(number))
    DeltaTable(bench.table.uri).optimize.compact()
    land(bench, order(4))
    derived.run(max_bytes=1)
    assert derived.values("id") == [0, 1, 2, 3, 4]


def test_a_consumer_behind_the_recorded_commits_fails_and_changes_nothing(bench, derived):
    bench.set_table_policy(chain=ChainPolicy(max_files=0))  # each file names only the one before it
    land(bench, order(0))
    derived.run()
    land(bench, order(1))
    pruned = bench.positions.commit_id
    land(bench, order(2))
    bench.table.files.delete_file(f"_kinesis/positions/{pruned}.json")
    with pytest.raises(SourceCommitsMissing):
        derived.run()
    assert derived.values("id") == [0]


def test_a_file_that_is_missing_only_once_rebuilds_nothing(bench, derived):
    class Healing(ShiftedClock):
        def sleep(self, seconds):
            self.passed += seconds
            hidden.rename(file)

    bench.set_table_policy(chain=ChainPolicy(max_files=0))  # each file names only the one before it
    land(bench, order(0))
    derived.run()
    land(bench, order(1))
    file = Path(bench.table.uri) / POSITIONS_FOLDER / f"{bench.positions.commit_id}.json"
    hidden = file.with_suffix(".hidden")
    land(bench, order(2))
    file.rename(hidden)
    derived.table.policy = replace(derived.table.policy, clock=Healing())
    commits = derived.run(on_deleted=OnDeleted.REBUILD)
    assert [commit.rows for commit in commits] == [2]
    assert derived.values("id") == [0, 1, 2]


def test_a_restored_source_is_refused(bench, derived):
    land(bench, order(0))
    derived.run()
    version = bench.version
    land(bench, order(1))
    DeltaTable(bench.table.uri).restore(version)
    with pytest.raises(TableRewritten):
        derived.run()


def test_a_table_keeps_the_source_with_which_it_began(bench, derived, tmp_path):
    land(bench, order(0))
    derived.run()
    other = replace(derived.derivation, source=derived.table.uri)
    second = replace(
        derived, table=derived_at(str(tmp_path / "second")), derivation=replace(other, transform=rows)
    )
    second.run()
    with pytest.raises(TableOfAnotherSource):
        second.run(source=bench.table.uri, transform=orders)


def rows(new):
    return new.drop("_batch_id")


@pytest.mark.parametrize("feature", [{"delta.enableDeletionVectors": "true"}])
def test_a_source_whose_files_hold_deleted_rows_is_refused(bench, derived, feature):
    land(bench, order(0))
    DeltaTable(bench.table.uri).alter.set_table_properties(feature)
    with pytest.raises(TableUnsuitable, match="deletionVectors"):
        derived.run()


def test_a_derived_table_of_a_derived_table_consumes_each_row_once(bench, derived, tmp_path):
    second = replace(
        derived,
        table=derived_at(str(tmp_path / "second")),
        derivation=replace(derived.derivation, source=derived.table.uri, transform=rows),
    )
    for number in range(3):
        land(bench, order(number))
        derived.run()
        second.run()
    assert second.values("id") == [0, 1, 2]


def test_rows_of_another_writer_without_a_batch_id_are_refused(bench, derived, tmp_path):
    land(bench, order(0))
    derived.run()
    others = derived.rows.drop_columns(["_batch_id"]).append_column("_batch_id", pa.nulls(1, pa.int64()))
    write_deltalake(derived.table.uri, others, mode="append")
    second = replace(
        derived,
        table=derived_at(str(tmp_path / "second")),
        derivation=replace(derived.derivation, source=derived.table.uri, transform=rows),
    )
    with pytest.raises(TableUnsuitable, match="without a _batch_id"):
        second.run()


# Schema changes


def test_a_column_that_differs_in_case_only_is_refused(bench, derived):
    land(bench, order(0))
    derived.run()
    land(bench, order(1))
    with pytest.raises(SchemaChangeRefused, match=r"\bid\b.*\bID\b"):
        derived.run(transform=lambda new: orders(new).withColumnRenamed("id", "ID"))


def test_a_new_column_is_added_and_is_null_in_older_rows(bench, derived):
    land(bench, order(0))
    derived.run(transform=lambda new: orders(new).select("id"))
    land(bench, order(1, 2.0))
    derived.run(transform=lambda new: orders(new).select("id", "amount"))
    assert derived.values("id", "amount") == [(0, None), (1, 2.0)]


def test_a_column_that_new_rows_lack_is_null_in_them(bench, derived):
    land(bench, order(0, 3.0))
    derived.run(transform=lambda new: orders(new).select("id", "amount"))
    land(bench, order(1, 2.0))
    derived.run(transform=lambda new: orders(new).select("id"))
    assert derived.values("id", "amount") == [(0, 3.0), (1, None)]


def test_a_narrower_type_is_widened_to_that_of_the_column(bench, derived):
    land(bench, order(0))
    derived.run(transform=lambda new: orders(new).select(F.col("id").cast("long")))
    land(bench, order(1))
    derived.run(transform=lambda new: orders(new).select(F.col("id").cast("short")))
    assert derived.values("id") == [0, 1]


def test_another_type_is_refused_before_anything_is_written(bench, derived):
    land(bench, order(0))
    derived.run()
    land(bench, order(1))
    files = DeltaTable(derived.table.uri).file_uris()
    with pytest.raises(SchemaChangeRefused, match=r"\bid\b.*\binteger\b.*\bstring\b"):
        derived.run(transform=as_text)
    assert DeltaTable(derived.table.uri).file_uris() == files


def as_text(new):
    """Return orders whose id is a text, and whose amount is the first column."""
    return orders(new).select("amount", F.col("id").cast("string"))


def test_a_refused_type_is_written_under_another_name_or_after_a_rebuild_as_the_error_says(bench, derived):
    land(bench, order(0))
    derived.run()
    land(bench, order(1))
    with pytest.raises(SchemaChangeRefused, match="give it another name, or run `kinesis-assets rebuild`"):
        derived.run(transform=as_text)
    derived.run(transform=lambda new: as_text(new).withColumnRenamed("id", "text"))
    assert derived.values("id", "text") == [(0, None), (None, "1")]
    land(bench, order(2))
    source, definition = open_source(bench.table.uri), derived.derivation.definition
    rebuild(derived.table, source, definition, (), by="ann", apply=True)
    derived.run(transform=as_text)
    assert derived.values("id") == ["0", "1", "2"]


def types(derived):
    fields = DeltaTable(derived.table.uri).schema().fields
    return {field.name: field.type.type for field in fields if field.name != "_batch_id"}


@pytest.mark.parametrize("mode", [None, Upsert(("id",), ("amount",))], ids=["append", "upsert"])
def test_a_rebuild_replaces_the_columns_of_which_one_has_another_type(bench, derived, mode):
    derived.derivation = replace(derived.derivation, mode=mode)
    for number in range(2):
        land(bench, order(number))
        derived.run()
    land(bench, order(2))
    commits = derived.run(transform=as_text, on_deleted=OnDeleted.REBUILD)
    assert [commit.rows for commit in commits] == [0, 0, 3]
    assert types(derived) == {"amount": "double", "id": "string"}
    assert derived.values("id") == ["0", "1", "2"]
    land(bench, order(3))
    assert [commit.rows for commit in derived.run(transform=as_text)] == [1]


def test_a_rebuild_goes_on_after_each_of_its_commits(bench, derived):
    for number in range(2):
        land(bench, order(number))
        derived.run()
    land(bench, order(2))
    next(derived.steps(transform=as_text, on_deleted=OnDeleted.REBUILD))
    assert derived.rows.num_rows == 0
    next(derived.steps(transform=as_text))
    assert types(derived) == {"amount": "double", "id": "string"}
    derived.run(transform=as_text)
    assert derived.values("id") == ["0", "1", "2"]


@pytest.mark.parametrize("bad", [0, 1, 2], ids=["the first row", "a later row", "a new row"])
def test_a_rebuild_does_not_delete_the_rows_if_one_of_the_source_is_refused(bench, derived, bad):
    def refused(new):
        def refuse(counts):
            if counts.errors:
                raise BadRecordsRefused(derived.table.uri, f"{counts.errors} bad records")

        rows = as_text(new).withColumn("error", F.when(F.col("id") == str(bad), "bad"))
        return CheckedRows(rows, error_column="error", check=refuse)

    for number in range(2):
        land(bench, order(number))
        derived.run()
    land(bench, order(2))
    with pytest.raises(BadRecordsRefused):
        derived.run(transform=refused, on_deleted=OnDeleted.REBUILD, max_bytes=1)
    assert derived.values("id") == [0, 1]


def test_a_table_without_rows_gets_other_columns_and_keeps_its_position(bench, derived):
    land(bench, order(0))
    derived.run(transform=lambda new: orders(new).where("id > 0"))
    land(bench, order(1))
    derived.run(transform=as_text)
    assert derived.values("id") == ["1"]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("has_rows", [False, True])
def test_columns_whose_type_needs_a_feature_of_the_table_can_replace_others(bench, derived, has_rows, nested):
    def with_local_time(new):
        time = F.lit("2026-01-01").cast("timestamp_ntz")
        return orders(new).withColumn("id", F.struct(time.alias("at")) if nested else time)

    land(bench, order(0))
    derived.run(transform=orders if has_rows else lambda new: orders(new).where("id > 0"))
    land(bench, order(1))
    derived.run(transform=with_local_time, on_deleted=OnDeleted.REBUILD)
    assert derived_rows(derived.table).num_rows == (2 if has_rows else 1)


def test_a_filter_finds_rows_by_a_column_whose_statistics_are_no_longer_written(bench, derived):
    land(bench, order(0))
    derived.run(transform=lambda new: orders(new).where("id > 0"))
    land(bench, order(1))
    derived.run(transform=lambda new: orders(new).withColumn("id", F.col("id").cast("double")))
    dataset = DeltaTable(derived.table.uri).to_pyarrow_dataset()
    assert dataset.to_table(filter=pc.field("id") == 1.0).num_rows == 1


def test_columns_that_a_table_cannot_have_are_refused_before_it_is_created(bench, derived):
    land(bench, order(0))
    with pytest.raises(InvalidInput, match="_batch_id"):
        derived.run(transform=lambda new: orders(new).withColumn("_batch_id", F.lit(1)))
    assert not derived.table.files.get_file_info("_delta_log").size
