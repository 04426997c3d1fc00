"""The raw table in the format Iceberg: commits, what other programs do to the table, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.types import ListType, NestedField, StringType, StructType

from kinesis_assets.errors import (
    CommitOvertaken,
    RoleNotAssumed,
    TableMissing,
    TableRewritten,
    TableUnsuitable,
)
from kinesis_assets.kinesis.clock import MACHINE_CLOCK
from kinesis_assets.kinesis.position import at
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.iceberg import version
from kinesis_assets.table.iceberg.manifests import entries_of
from kinesis_assets.table.iceberg.rows import merge
from kinesis_assets.table.positions.positions import next_positions
from kinesis_assets.table.row_predicates import RowsAfter
from support.amendments import commit_amendment, new_amendment
from support.attempts import (
    STREAM,
    Attempt,
    assert_rows_are_what_positions_say,
    current_positions,
    freeze_all,
    rows_by_shard,
    shards,
)
from support.formats import append, delete, iceberg_of, reopened, restore, rows_of, table_of
from support.iceberg.foreign import add_column
from support.timing import WRITING

pytestmark = pytest.mark.usefixtures("frozen")


@pytest.fixture
def table(tmp_path):
    return table_of("iceberg", str(tmp_path / "table"), WRITING, snapshots_kept=5)


@pytest.fixture
def frozen(table):
    return freeze_all(table, shards("a", "b"))


def commit_more(table, **counts):
    return Attempt(table, current_positions(table), counts).commit()


def row(shard_id, number):
    """Return a row that another program may add."""
    return {
        "stream": STREAM.name,
        "shard_id": shard_id,
        "sequence_number": str(number),
        "sub_sequence_number": 0,
        "data": b"x",
        "approximate_arrival_timestamp": 1_770_033_600_000_000,
        "batch_id": 1,
    }


def compact(table):
    """Replace all data files by one with the same rows, and expire all other snapshots, as Spark can."""
    snapshot = table.snapshot()
    paths = [file.path for file in snapshot.data_files()]
    snapshot.replace_files(paths, merge(table, snapshot.iceberg.location(), "2026-02-02", paths))
    newest = iceberg_of(table)
    others = [each.snapshot_id for each in newest.snapshots() if each != newest.current_snapshot()]
    newest.maintenance.expire_snapshots().by_ids(others).commit()


@pytest.mark.parametrize(
    "error",
    [
        CommitFailedException("409 after a success"),
        CommitStateUnknownException("500 after a success"),
        OSError("the response was lost"),
        RoleNotAssumed("credentials expired before the SDK repeated the request"),
    ],
)
def test_a_commit_whose_response_is_lost_is_made_once_and_its_manifests_stay(table, monkeypatch, error):
    original, requests = SqlCatalog.commit_table, []

    def commit_table(catalog, *arguments):
        response = original(catalog, *arguments)
        requests.append(1)
        if len(requests) == 1:
            raise error
        return response

    monkeypatch.setattr(SqlCatalog, "commit_table", commit_table)
    result = commit_more(table, a=3)
    assert (result.version, len(requests)) == (2, 1)
    assert rows_by_shard(table) == {"a": [1, 2, 3]}
    assert_rows_are_what_positions_say(table)


def test_of_two_commits_onto_one_version_the_second_is_refused(table, frozen):
    attempt, stale = Attempt(table, frozen, {"a": 1}), table.snapshot()
    commit_more(table, b=1)
    positions = next_positions(
        frozen,
        dict(attempt.moved),
        identity=STREAM,
        commit_id=new_id(),
        batch_id=attempt.batch_id,
        examined=1,
        listed_at=frozen.listed_at,
    )
    with pytest.raises(CommitOvertaken):
        stale.commit(attempt.files, identity=STREAM, positions=positions)
    assert rows_by_shard(table) == {"b": [1]}


@pytest.mark.slow
def test_rows_that_another_program_appends_harm_no_commit(table, frozen):
    attempt = Attempt(table, frozen, {"a": 2})
    append(table, [row("c", 7)])
    attempt.commit()
    assert rows_by_shard(table) == {"a": [1, 2], "c": [7]}
    commit_more(table, a=1)
    assert rows_by_shard(table) == {"a": [1, 2, 3], "c": [7]}


@pytest.mark.slow
def test_a_compaction_with_expiry_to_one_snapshot_harms_nothing(table):
    commit_more(table, a=2)
    commit_more(table, b=1)
    attempt = Attempt(table, current_positions(table), {"a": 2})
    compact(table)
    assert len(iceberg_of(table).snapshots()) == 1
    attempt.commit()
    assert len(table.snapshot().data_files()) == 2
    assert_rows_are_what_positions_say(table)


def test_a_rollback_is_refused(table):
    commit_more(table, a=2)
    version = table.snapshot().version
    commit_more(table, a=2)
    restore(table, version)
    with pytest.raises(TableRewritten, match=r"version 4 \(rollback"):
        commit_more(table, a=1)


def test_a_rollback_is_refused_after_another_program_has_expired_its_traces(table):
    commit_more(table, a=2)
    version = table.snapshot().version
    commit_more(table, a=2)
    lost = iceberg_of(table).current_snapshot()
    restore(table, version)
    iceberg_of(table).maintenance.expire_snapshots().by_ids([lost.snapshot_id]).commit()
    with pytest.raises(TableRewritten, match=r"version 3 \(rollback"):
        commit_more(table, a=1)


@pytest.fixture
def without_history(monkeypatch):
    """Let only the newest state be known, as when Iceberg's Java library expires the one before."""
    known = version.states

    def newest(metadata):
        return [each._replace(is_rollback=False) for each in known(metadata)[-1:]]

    monkeypatch.setattr(version, "states", newest)


@pytest.mark.usefixtures("without_history")
def test_a_rollback_of_an_amendment_is_refused(table):
    commit_more(table, a=2)
    commit_amendment(table, STREAM)
    lost = iceberg_of(table).current_snapshot()
    restore(table, 2)
    iceberg_of(table).maintenance.expire_snapshots().by_ids([lost.snapshot_id]).commit()
    with pytest.raises(TableRewritten, match=r"version 3 \(rollback"):
        commit_more(table, a=1)


@pytest.mark.usefixtures("without_history")
def test_a_rollback_of_an_amendment_is_refused_after_a_compaction(table):
    commit_more(table, a=2)
    commit_amendment(table, STREAM)
    lost = iceberg_of(table).current_snapshot()
    restore(table, 2)
    iceberg_of(table).maintenance.expire_snapshots().by_ids([lost.snapshot_id]).commit()
    (file,) = table.snapshot().data_files()
    written = merge(table, iceberg_of(table).location(), "2026-02-02", [file.path])
    table.snapshot().replace_files([file.path], written)
    with pytest.raises(TableRewritten, match=r"version 3 \(rollback"):
        commit_more(table, a=1)


@pytest.mark.usefixtures("without_history")
def test_a_rollback_is_refused_after_an_amendment_that_does_not_check_for_it(table):
    commit_more(table, a=2)
    lost = iceberg_of(table).current_snapshot()
    restore(table, 1)
    iceberg_of(table).maintenance.expire_snapshots().by_ids([lost.snapshot_id]).commit()
    commit_amendment(table, STREAM)
    with pytest.raises(TableRewritten, match=r"version 2 \(rollback"):
        commit_more(table, a=1)


def test_a_rollback_is_refused_after_another_program_has_appended_rows(table):
    commit_more(table, a=2)
    version = table.snapshot().version
    commit_more(table, a=2)
    restore(table, version)
    append(table, [row("c", 7)])
    with pytest.raises(TableRewritten, match="rollback"):
        commit_more(table, a=1)


def test_a_table_without_the_newest_rows_is_refused_if_it_is_not_known_why(table):
    commit_more(table, a=2)
    version = table.snapshot().version
    commit_more(table, b=2)
    restore(table, version)
    compact(table)
    with pytest.raises(TableRewritten):
        commit_more(table, a=1)


def test_a_deletion_by_another_program_is_no_rewrite(table):
    commit_more(table, a=2, b=1)
    delete(table, "sequence_number = '1'")
    commit_more(table, a=1)
    assert rows_by_shard(table) == {"a": [2, 3]}


@pytest.mark.parametrize("rows", [[row("c", 7)], []])
def test_an_overwrite_by_pyiceberg_is_refused(table, rows):
    commit_more(table, a=2, b=1)
    iceberg = iceberg_of(table)
    iceberg.overwrite(pa.Table.from_pylist(rows, iceberg.schema().as_arrow()))
    with pytest.raises(TableRewritten, match=r"version 4 \(overwrite"):
        commit_more(table, a=1)


def test_a_deletion_of_all_rows_by_another_program_is_no_rewrite(table):
    commit_more(table, a=2, b=1)
    delete(table, "sub_sequence_number = 0")
    assert rows_by_shard(table) == {}
    commit_more(table, a=1)
    assert rows_by_shard(table) == {"a": [3]}


def test_a_deletion_of_the_newest_rows_is_refused_if_snapshots_before_it_have_expired(table):
    commit_more(table, a=2)
    commit_more(table, b=1)
    compact(table)
    delete(table, "shard_id = 'b'")
    with pytest.raises(TableRewritten, match="whose entry the log no longer has"):
        commit_more(table, a=1)


def test_an_append_after_an_amendment_has_deleted_all_rows_is_no_rewrite(table):
    commit_more(table, a=2)
    every = RowsAfter(STREAM.name, {"a": at("0")})
    assert table.snapshot().remove(every, identity=STREAM, amendment=new_amendment()) == 2
    append(table, [row("c", 7)])
    commit_more(table, a=1)
    assert rows_by_shard(table) == {"a": [3], "c": [7]}


@pytest.mark.slow
def test_each_commit_expires_snapshots_but_the_newest_and_those_with_a_name(table):
    iceberg_of(table).manage_snapshots().create_tag(
        iceberg_of(table).current_snapshot().snapshot_id, "first"
    ).commit()
    for _ in range(8):
        commit_more(table, a=1)
    kept = sorted(each.sequence_number for each in iceberg_of(table).snapshots())
    assert kept == [1, 5, 6, 7, 8, 9]


def test_young_snapshots_are_kept_for_some_hours(tmp_path):
    table = table_of(
        "iceberg", str(tmp_path / "kept"), WRITING, name="kept", snapshots_kept=1, snapshot_hours=1
    )
    freeze_all(table, shards("a"))
    for _ in range(3):
        commit_more(table, a=1)
    assert len(iceberg_of(table).snapshots()) == 4


@pytest.mark.slow
def test_many_manifests_are_merged(table):
    for _ in range(40):
        commit_more(table, a=1)
    manifests = iceberg_of(table).current_snapshot().manifests(PyArrowFileIO())
    assert len(manifests) < 16  # fewer than 8 of a file or a few, and fewer than 8 of at least 8
    entries = list(entries_of(table.uri, iceberg_of(table), iceberg_of(table).current_snapshot()))
    assert len({entry.snapshot_id for entry in entries}) == 40  # by which readers find what is new
    assert_rows_are_what_positions_say(table)


def test_manifests_that_only_say_what_was_deleted_are_left_out_by_the_next_commit(table):
    commit_more(table, a=2)
    commit_more(table, b=1)
    compact(table)
    manifests = iceberg_of(table).current_snapshot().manifests(PyArrowFileIO())
    assert sorted(each.deleted_files_count for each in manifests) == [0, 1, 1]
    commit_more(table, a=1)
    manifests = iceberg_of(table).current_snapshot().manifests(PyArrowFileIO())
    assert [each.deleted_files_count for each in manifests] == [0, 0]
    assert_rows_are_what_positions_say(table)


def test_a_clock_that_is_behind_does_not_stop_commits(table):
    class Behind(type(MACHINE_CLOCK)):
        def time(self):
            return super().time() - 600

    table.policy = replace(table.policy, clock=Behind())
    assert commit_more(table, a=1).version == 2
    first, second = (each.timestamp_ms for each in iceberg_of(table).snapshots())
    assert first <= second  # Iceberg's Java library refuses another order


@pytest.mark.parametrize("seconds", [600, -600])
def test_the_times_of_snapshots_rise_also_after_a_commit_by_a_clock_that_is_ahead(table, seconds):
    """Iceberg's Java library reads no table whose times fall by a minute or more."""

    class Wrong(type(MACHINE_CLOCK)):
        def time(self):
            return super().time() + seconds

    right, wrong = table.policy, replace(table.policy, clock=Wrong())
    for policy in (wrong, right, right):
        table.policy = policy
        commit_more(table, a=1)
    metadata = iceberg_of(table).metadata
    times = [*(each.timestamp_ms for each in metadata.snapshot_log), metadata.last_updated_ms]
    assert times == sorted(times)
    assert len({each.timestamp_ms for each in metadata.snapshots}) == 4  # or some would not expire


def test_rows_are_removed_with_the_positions_that_are_set_back(table, frozen):
    commit_more(table, a=3, b=1)
    now = current_positions(table)
    shards_after = {**now.shards, "a": frozen.shards["a"]}
    back = next_positions(
        now,
        shards_after,
        identity=STREAM,
        commit_id=new_id(),
        batch_id=new_id(),
        examined=2,
        listed_at=now.listed_at,
    )
    after = RowsAfter(STREAM.name, {"a": at("2")})
    assert table.snapshot().count(after) == {"a": 2}
    assert table.snapshot().remove(after, identity=STREAM, positions=back) == 2
    assert rows_by_shard(table) == {"a": [1], "b": [1]}
    assert (
        table.snapshot().remove(
            RowsAfter(STREAM.name, {"a": at("1"), "b": at("1")}),
            identity=STREAM,
            amendment=None,
            positions=None,
        )
        == 2
    )
    assert table.snapshot().data_files() == []


PLACES = ListType(1, StructType(NestedField(2, "city", StringType(), required=False)), element_required=False)


def test_values_of_columns_that_others_have_added_stay_when_rows_are_removed(table):
    add_column(iceberg_of(table), "note", StringType())
    add_column(iceberg_of(table), "places", PLACES)
    kept = row("a", 5) | {"note": "kept", "places": [{"city": "Rome"}, None]}
    append(table, [kept, row("a", 9) | {"note": "removed"}])
    after = RowsAfter(STREAM.name, {"a": at("6")})
    assert table.snapshot().remove(after, identity=STREAM, amendment=None, positions=None) == 1
    (found,) = rows_of(table, ["sequence_number", "data", "note", "places"]).to_pylist()
    assert found == {name: kept[name] for name in found}


@pytest.mark.slow
def test_rows_are_not_removed_from_a_file_with_columns_of_others_without_ids(table):
    add_column(iceberg_of(table), "note", StringType())
    append(table, [row("a", 5) | {"note": "kept"}, row("a", 9)])
    (file,) = table.snapshot().data_files()
    with_ids, without = Path(table.uri, file.path), Path(table.uri, "added.parquet")
    rows = pq.read_table(with_ids)
    fields = [field.remove_metadata() for field in rows.schema]
    pq.write_table(pa.table(rows.columns, schema=pa.schema(fields)), without)
    delete(table, "shard_id = 'a'")
    iceberg_of(table).add_files([f"file://{without}"])
    after = RowsAfter(STREAM.name, {"a": at("6")})
    with pytest.raises(TableUnsuitable, match=r"added\.parquet.* note without the ids"):
        table.snapshot().remove(after, identity=STREAM, amendment=None, positions=None)
    assert rows_by_shard(table) == {"a": [5, 9]}


def test_files_have_field_ids_and_statistics_by_which_readers_skip_them(table):
    commit_more(table, a=2)
    commit_more(table, b=2)
    (first, second) = table.snapshot().file_stats()
    schema = pq.read_schema(Path(table.uri, first.path))
    assert [int(field.metadata[b"PARQUET:field_id"]) for field in schema] == list(range(1, 10))
    scan = iceberg_of(table).scan(row_filter="shard_id = 'b'")
    assert [Path(task.file.file_path).name for task in scan.plan_files()] == [
        Path(each.path).name for each in (first, second) if each.first_shard_id == "b"
    ]
    assert scan.to_arrow().num_rows == 2


def test_totals_are_those_of_the_files(table):
    commit_more(table, a=2)
    commit_more(table, b=1)
    totals = table.snapshot().totals()
    assert (totals.rows, totals.files) == (3, 2)
    summary = iceberg_of(table).current_snapshot().summary
    assert (summary["total-records"], summary["total-data-files"], summary["total-files-size"]) == (
        "3",
        "2",
        str(totals.bytes),
    )


def test_a_catalog_entry_of_another_folder_is_refused(tmp_path):
    with pytest.raises(TableUnsuitable, match="Correct the setting table"):
        table_of("iceberg", str(tmp_path / "other"), WRITING).snapshot()


@pytest.mark.slow
def test_a_table_that_was_renamed_in_the_catalog_is_not_created_again(table):
    commit_more(table, a=2)
    catalog = iceberg_of(table).catalog
    catalog.rename_table("lake.orders", "lake.renamed")
    with pytest.raises(TableUnsuitable, match=r"no table lake\.orders, but .* positions"):
        freeze_all(reopened(table), shards("a", "b"))
    with pytest.raises(NoSuchTableError):
        catalog.load_table("lake.orders")
    renamed = table_of("iceberg", table.uri, WRITING, name="renamed")
    assert_rows_are_what_positions_say(renamed)
    assert rows_by_shard(renamed) == {"a": [1, 2]}


def test_a_table_whose_creation_by_another_process_is_seen_late_is_opened(table, frozen):
    opened = table.snapshot
    answers = [TableMissing(table.uri, "not seen yet"), TableMissing(table.uri, "not seen yet")]

    def late():
        if answers:
            raise answers.pop()
        return opened()

    snapshot = table.format.create(late, STREAM)
    assert snapshot.positions(STREAM) == frozen


def test_a_table_with_other_columns_is_refused(table):
    with iceberg_of(table).update_schema() as update:
        update.rename_column("batch_id", "batch")
    with pytest.raises(TableUnsuitable, match="batch_id"):
        table.snapshot()
