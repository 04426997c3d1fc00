"""The commit protocol: atomic commits of rows and positions, lost responses, retries and conflicts."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake

from kinesis_assets.errors import (
    AttemptExpired,
    CommitFailed,
    CommitUnknown,
    DataFileInvalid,
    PositionConflict,
    PositionsUnreadable,
    StreamRecreated,
    TableMissing,
    TableUnreachable,
    TableUnsuitable,
)
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.shards import Shard
from kinesis_assets.table import commit as commit_module
from kinesis_assets.table import positions_file
from kinesis_assets.table.amendments import FORMAT as AMENDMENT_FORMAT
from kinesis_assets.table.amendments import Amendment
from kinesis_assets.table.commit import commit
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.data_file import TABLE_SCHEMA
from kinesis_assets.table.data_file_writer import without_shards
from kinesis_assets.table.policy import TablePolicy
from kinesis_assets.table.positions import FORMAT
from kinesis_assets.table.positions_chain import ChainPolicy
from kinesis_assets.table.snapshot import TableSnapshot
from kinesis_assets.table.table import PositionedTable
from support.attempts import (
    BEGINNING,
    STREAM,
    Attempt,
    assert_rows_are_what_positions_say,
    current_positions,
    freeze_all,
    listing,
    rows_by_shard,
    shards,
)

RACERS = 8
LATER_STREAM = msgspec.structs.replace(STREAM, created=datetime(2026, 6, 1, tzinfo=UTC))


@pytest.fixture
def frozen(table):
    """The positions of shards a, b and c before anything was read."""
    return freeze_all(table, shards("a", "b", "c"))


@pytest.fixture
def three_tries(table):
    """Limit commits to three tries."""
    table.policy = replace(table.policy, commits=replace(table.policy.commits, tries=3))


@pytest.fixture
def at_commit(monkeypatch):
    """Replace the next tries: `at_commit(replacement)` gets the real function and its arguments."""
    original = TableSnapshot.commit

    def real(snapshot, files, positions):
        original(snapshot, files, identity=positions.identity, positions=positions)

    def at_commit(replacement, times=1):
        left = [times]

        def commit(snapshot, files, *, identity, positions, retired=()):
            assert not retired
            assert identity == positions.identity
            if not left[0]:
                return real(snapshot, files, positions)
            left[0] -= 1
            return replacement(real, snapshot, files, positions)

        monkeypatch.setattr(TableSnapshot, "commit", commit)

    return at_commit


def lost_response(real, snapshot, files, positions):
    """A try that commits but whose response is lost."""
    real(snapshot, files, positions)
    raise OSError("connection reset")


def never_landed(*_):
    """A try that fails without a commit."""
    raise OSError("connection refused")


# Freezing


def test_the_first_freeze_creates_the_table_and_positions_without_rows(table):
    positions = freeze_all(table, shards("a", "b"))
    assert positions == current_positions(table)
    assert {shard.position for shard in positions.shards.values()} == {BEGINNING}
    assert (positions.generation, positions.previous) == (0, None)
    assert rows_by_shard(table) == {}


def test_a_second_freeze_with_other_arguments_changes_nothing(table):
    first = freeze_all(table, shards("a"))
    version = DeltaTable(table.folder.uri).version()
    again = freeze_all(table, shards("a", "b"), Position.parse("AT_TIMESTAMP:2026-01-31T12:00:00Z"))
    assert again == first
    assert DeltaTable(table.folder.uri).version() == version


def test_a_freeze_whose_response_is_lost_succeeds(table, at_commit):
    at_commit(lost_response)
    assert freeze_all(table, shards("a")) == current_positions(table)
    assert DeltaTable(table.folder.uri).version() == 1


@pytest.mark.usefixtures("three_tries")
def test_a_freeze_fails_after_a_bounded_number_of_tries(table, at_commit):
    at_commit(never_landed, times=99)
    with pytest.raises(CommitFailed, match="failed 3 times, the last time with: connection refused"):
        freeze_all(table, shards("a"))


# Committing


def test_rows_and_positions_are_committed_together(table, frozen):
    attempt = Attempt(table, frozen, {"a": 3, "b": 2})
    assert rows_by_shard(table) == {}
    result = attempt.commit()
    assert rows_by_shard(table) == {"a": [1, 2, 3], "b": [1, 2]}
    assert_rows_are_what_positions_say(table)
    assert (result.version, result.conflicts) == (DeltaTable(table.folder.uri).version(), {})
    assert list(result.files) == attempt.files


def test_committed_positions_refer_to_the_previous_ones(table, frozen):
    attempt = Attempt(table, frozen, {"a": 3})
    attempt.commit()
    now = current_positions(table)
    assert (now.previous, now.generation, now.batch_id) == (frozen.commit_id, 1, attempt.batch_id)
    assert now.commit_id > frozen.commit_id


def test_every_row_contains_the_batch_id_of_its_attempt(table, frozen):
    first = Attempt(table, frozen, {"a": 2})
    first.commit()
    second = Attempt(table, current_positions(table), {"a": 1})
    second.commit()
    rows = DeltaTable(table.uri).to_pyarrow_table(columns=["sequence_number", "batch_id"]).to_pylist()
    assert {(row["sequence_number"], row["batch_id"]) for row in rows} == {
        ("1", first.batch_id),
        ("2", first.batch_id),
        ("3", second.batch_id),
    }


def test_a_conflict_names_the_batch_that_moved_the_shard_even_after_later_commits(table, frozen):
    late = Attempt(table, frozen, {"a": 3})
    first = Attempt(table, frozen, {"a": 2})
    first.commit()
    Attempt(table, current_positions(table), {"b": 1}).commit()
    conflict = late.commit().conflicts["a"]
    assert f"but batch {first.batch_id} left it at AFTER_SEQUENCE_NUMBER:2" in str(conflict)


def test_a_commit_without_files_adds_no_rows(table, frozen):
    attempt = Attempt(table, frozen, {"a": 0})
    attempt.moved = {"a": msgspec.structs.replace(frozen.shards["a"], finished=True)}
    attempt.files = []
    attempt.commit()
    assert current_positions(table).finished == {"a"}
    assert rows_by_shard(table) == {}


def test_committed_positions_include_shards_listed_during_the_attempt(table, frozen):
    attempt = Attempt(table, frozen, {"a": 1})
    listed = [*shards("a", "b", "c"), Shard("child", ("a",), ("0", "4"), "8")]
    seen = listing(listed)
    commit(
        table,
        expected=frozen.with_listing(seen),
        listing=seen,
        batch_id=attempt.batch_id,
        moved=attempt.moved,
        files=attempt.files,
        added=attempt.added,
    )
    assert current_positions(table).shards["child"].position == BEGINNING


def test_a_crash_before_the_commit_leaves_no_rows_and_the_old_positions(table, frozen):
    Attempt(table, frozen, {"a": 3})
    assert rows_by_shard(table) == {}
    assert current_positions(table) == frozen


def test_a_crash_between_positions_file_and_log_entry_leaves_the_old_positions(table, frozen, at_commit):
    class Killed(BaseException):
        pass

    def killed(*arguments):
        *_, positions = arguments
        Path(table.uri, f"_kinesis/positions/{positions.commit_id}.json").write_bytes(b"{")
        raise Killed

    at_commit(killed)
    with pytest.raises(Killed):
        Attempt(table, frozen, {"a": 3}).commit()
    assert current_positions(table) == frozen
    assert rows_by_shard(table) == {}
    Attempt(table, frozen, {"a": 3}).commit()
    assert_rows_are_what_positions_say(table)


def test_a_commit_opens_the_table_once(table, frozen, monkeypatch):
    attempt = Attempt(table, frozen, {"a": 3})
    opened = []
    original = PositionedTable.snapshot
    monkeypatch.setattr(PositionedTable, "snapshot", lambda table: opened.append(1) or original(table))
    monkeypatch.delattr(DeltaTable, "history")
    assert attempt.commit().version == 2
    assert len(opened) == 1


def test_a_commit_returns_its_own_version_even_if_another_landed_first(table, frozen, at_commit):
    def after_another(real, snapshot, files, positions):
        write_deltalake(table.uri, TABLE_SCHEMA.empty_table(), mode="append")
        real(snapshot, files, positions)
        Attempt(table, current_positions(table), {"b": 2}).commit()

    at_commit(after_another)
    assert Attempt(table, frozen, {"a": 3}).commit().version == 3
    assert DeltaTable(table.folder.uri).version() == 4
    assert_rows_are_what_positions_say(table)


def test_a_try_that_succeeds_without_a_log_entry_is_repeated(table, frozen, at_commit):
    at_commit(lambda *_: None)
    result = Attempt(table, frozen, {"a": 3}).commit()
    assert (result.version, result.conflicts) == (2, {})
    assert_rows_are_what_positions_say(table)


def test_commits_write_checkpoints_at_intervals(table, frozen):
    for _ in range(21):
        Attempt(table, current_positions(table), {"a": 1}).commit()
    (checkpoint,) = Path(table.uri, "_delta_log").glob("*.checkpoint.parquet")
    assert checkpoint.name == f"{19:020}.checkpoint.parquet"
    assert current_positions(table).generation == frozen.generation + 21


# Lost responses


def test_a_commit_whose_response_is_lost_is_not_repeated(table, frozen, at_commit):
    attempt = Attempt(table, frozen, {"a": 3})
    at_commit(lost_response)
    result = attempt.commit()
    assert (result.version, result.conflicts) == (2, {})
    assert list(result.files) == attempt.files
    assert DeltaTable(table.folder.uri).version() == 2
    assert rows_by_shard(table) == {"a": [1, 2, 3]}


@pytest.mark.parametrize("shard_id", ["a", "b"])
def test_a_commit_whose_response_is_lost_is_found_behind_later_commits(table, frozen, at_commit, shard_id):
    attempt = Attempt(table, frozen, {"a": 3})

    def lost_and_overtaken(real, snapshot, files, positions):
        real(snapshot, files, positions)
        for _ in range(2):
            Attempt(table, current_positions(table), {shard_id: 2}).commit()
        raise OSError("connection reset")

    at_commit(lost_and_overtaken)
    result = attempt.commit()
    assert (result.version, result.conflicts) == (2, {})
    assert DeltaTable(table.folder.uri).version() == 4
    assert_rows_are_what_positions_say(table)


def test_a_commit_whose_response_is_lost_is_found_after_a_failed_read(table, frozen, at_commit, monkeypatch):
    failing = iter([True])
    snapshot = PositionedTable.snapshot

    def unreadable_once(self):
        if commit_ids and next(failing, False):
            raise OSError("unreadable")
        return snapshot(self)

    commit_ids = []

    def landed_and_lost(real, self, files, positions):
        real(self, files, positions)
        commit_ids.append(positions.commit_id)
        raise OSError("connection reset")

    at_commit(landed_and_lost, times=1)
    monkeypatch.setattr(PositionedTable, "snapshot", unreadable_once)
    Attempt(table, frozen, {"a": 3}).commit()
    assert rows_by_shard(table) == {"a": [1, 2, 3]}
    assert len(commit_ids) == 1


def test_a_commit_with_a_conflict_whose_response_is_lost_returns_what_it_committed(table, frozen, at_commit):
    attempt = Attempt(table, frozen, {"a": 3, "b": 3})
    Attempt(table, frozen, {"a": 1}).commit()
    at_commit(lost_response)
    result = attempt.commit()
    assert result.conflicts.keys() == {"a"}
    assert [file.rows_by_shard for file in result.files] == [{"b": 3}]
    assert_rows_are_what_positions_say(table)


def test_a_failed_try_is_repeated(table, frozen, at_commit):
    at_commit(never_landed, times=2)
    assert Attempt(table, frozen, {"a": 3}).commit().version == 2
    assert_rows_are_what_positions_say(table)


def test_each_try_writes_its_own_positions_file(table, frozen, at_commit):
    commit_ids = []

    def note(*arguments):
        *_, positions = arguments
        commit_ids.append(positions.commit_id)
        raise OSError("connection refused")

    at_commit(note, times=3)
    Attempt(table, frozen, {"a": 3}).commit()
    assert len({*commit_ids, current_positions(table).commit_id}) == 4


def test_a_committed_batch_cannot_be_committed_again(table, frozen):
    attempt = Attempt(table, frozen, {"a": 3})
    attempt.commit()
    with pytest.raises(CommitFailed, match="already committed"):
        attempt.commit()
    assert rows_by_shard(table) == {"a": [1, 2, 3]}


# Conflicts


def test_a_conflict_on_one_shard_excludes_only_its_rows(table, frozen):
    attempt = Attempt(table, frozen, {"a": 3, "b": 4, "c": 5})
    Attempt(table, frozen, {"b": 1}).commit()
    result = attempt.commit()
    assert isinstance(result.conflicts["b"], PositionConflict)
    assert result.conflicts.keys() == {"b"}
    assert rows_by_shard(table) == {"a": [1, 2, 3], "b": [1], "c": [1, 2, 3, 4, 5]}
    assert_rows_are_what_positions_say(table)


def test_a_conflict_is_returned_even_if_a_later_try_commits(table, frozen, at_commit):
    attempt = Attempt(table, frozen, {"a": 3, "b": 4})
    Attempt(table, frozen, {"b": 1}).commit()
    at_commit(never_landed, times=2)
    assert attempt.commit().conflicts.keys() == {"b"}
    assert rows_by_shard(table) == {"a": [1, 2, 3], "b": [1]}


def test_rows_of_a_conflict_stay_excluded_after_their_exclusion_failed_once(table, frozen, monkeypatch):
    attempt = Attempt(table, frozen, {"a": 3, "b": 4})
    Attempt(table, frozen, {"b": 1}).commit()
    failing = iter([True])

    def unreadable_once(*arguments):
        if next(failing, False):
            raise OSError("unreadable")
        return without_shards(*arguments)

    monkeypatch.setattr(commit_module, "without_shards", unreadable_once)
    assert attempt.commit().conflicts.keys() == {"b"}
    assert rows_by_shard(table) == {"a": [1, 2, 3], "b": [1]}


def test_a_conflict_between_reading_the_table_and_the_commit_is_detected(table, frozen, at_commit):
    attempt = Attempt(table, frozen, {"a": 3, "b": 4})

    def overtaken(real, snapshot, files, positions):
        Attempt(table, frozen, {"b": 1}).commit()
        return real(snapshot, files, positions)

    at_commit(overtaken)
    result = attempt.commit()
    assert result.conflicts.keys() == {"b"}
    assert rows_by_shard(table) == {"a": [1, 2, 3], "b": [1]}


def test_a_conflict_on_every_shard_commits_nothing(table, frozen):
    attempt = Attempt(table, frozen, {"a": 3})
    Attempt(table, frozen, {"a": 1}).commit()
    version = DeltaTable(table.folder.uri).version()
    result = attempt.commit()
    assert (result.version, result.files, result.conflicts.keys()) == (None, (), {"a"})
    assert DeltaTable(table.folder.uri).version() == version


def test_a_concurrent_commit_on_another_shard_is_not_a_conflict(table, frozen, at_commit):
    attempt = Attempt(table, frozen, {"a": 3})

    def overtaken(real, snapshot, files, positions):
        Attempt(table, frozen, {"b": 1}).commit()
        return real(snapshot, files, positions)

    at_commit(overtaken)
    assert attempt.commit().conflicts == {}
    assert_rows_are_what_positions_say(table)


def test_a_conflict_leaves_its_files_to_vacuum(table, frozen):
    attempt = Attempt(table, frozen, {"a": 3})
    Attempt(table, frozen, {"a": 1}).commit()
    attempt.commit()
    assert Path(table.uri, attempt.files[0].path).is_file()


# Errors of an attempt


def test_a_missing_positions_file_raises_commit_unknown(table, frozen):
    # With this policy each file refers to its predecessor only.
    table = PositionedTable(table.uri, TablePolicy(ChainPolicy(max_files=0)))
    attempt = Attempt(table, frozen, {"a": 3})
    for _ in range(3):
        Attempt(table, current_positions(table), {"b": 1}).commit()
    previous = current_positions(table).previous
    Path(table.uri, f"_kinesis/positions/{previous}.json").unlink()
    attempt.table = PositionedTable(table.uri)  # without cached positions
    with pytest.raises(CommitUnknown, match=f"batch {attempt.batch_id}.*{previous}"):
        attempt.commit()


def test_replaced_positions_raise_commit_unknown(table, frozen):
    attempt = Attempt(table, frozen, {"a": 3})
    expected = msgspec.structs.replace(frozen, commit_id=new_id())
    attempt.expected = expected
    with pytest.raises(CommitUnknown, match=str(expected.commit_id)):
        attempt.commit()


def test_a_table_without_positions_of_the_stream_raises_commit_unknown(frozen, tmp_path):
    other = PositionedTable(str(tmp_path / "other"))
    other.create_if_missing()
    with pytest.raises(CommitUnknown, match="missing"):
        Attempt(other, frozen, {"a": 3}).commit()


def test_an_attempt_older_than_a_third_of_the_retention_is_expired(table, frozen):
    old = int((time.time() - timedelta(days=1).total_seconds() / 3 - 60) * 1000) << 20
    attempt = Attempt(table, frozen, {"a": 3}, batch_id=old)
    with pytest.raises(AttemptExpired, match=str(old)):
        attempt.commit()
    assert current_positions(table) == frozen


def test_an_attempt_younger_than_a_third_of_the_retention_is_committed(table, frozen):
    young = int((time.time() - timedelta(days=1).total_seconds() / 3 + 60) * 1000) << 20
    assert Attempt(table, frozen, {"a": 3}, batch_id=young).commit().version == 2


def test_a_missing_data_file_prevents_the_commit(table, frozen):
    attempt = Attempt(table, frozen, {"a": 3})
    table.files.delete_file(attempt.files[0].path)
    with pytest.raises(DataFileInvalid):
        attempt.commit()
    assert current_positions(table) == frozen


def test_a_data_file_listed_twice_prevents_the_commit(table, frozen):
    attempt = Attempt(table, frozen, {"a": 3})
    attempt.files = [*attempt.files, *attempt.files]
    with pytest.raises(DataFileInvalid, match="names a data file twice"):
        attempt.commit()
    assert current_positions(table) == frozen


@pytest.mark.usefixtures("three_tries")
def test_the_error_after_the_last_try_contains_its_cause(table, frozen, at_commit):
    at_commit(never_landed, times=99)
    with pytest.raises(CommitFailed, match="failed 3 times, the last time with: connection refused"):
        Attempt(table, frozen, {"a": 3}).commit()
    assert current_positions(table) == frozen


@pytest.mark.usefixtures("three_tries")
def test_tries_without_an_error_or_a_commit_are_bounded(table, frozen, at_commit):
    tried = []
    at_commit(lambda *arguments: tried.append(arguments), times=99)
    with pytest.raises(CommitFailed, match="the commit failed"):
        Attempt(table, frozen, {"a": 3}).commit()
    assert len(tried) == 3
    assert current_positions(table) == frozen


@pytest.mark.usefixtures("three_tries")
def test_a_commit_by_the_last_try_is_found(table, frozen, at_commit):
    tries = []

    def last_lands(real, snapshot, files, positions):
        tries.append(positions.commit_id)
        if len(tries) == 3:
            real(snapshot, files, positions)
        raise OSError("connection reset")

    at_commit(last_lands, times=99)
    assert Attempt(table, frozen, {"a": 3}).commit().version == 2


# Tables


def test_a_table_with_another_schema_is_unsuitable(table):
    schema = Schema.from_arrow(pa.schema([pa.field("id", pa.int64())]))
    DeltaTable.create(table.uri, schema)
    with pytest.raises(TableUnsuitable, match=r"wrong or missing: stream, shard_id"):
        freeze_all(table, shards("a"))


@pytest.mark.parametrize("column", ["data", "batch_id"])
def test_a_table_with_a_column_of_another_type_is_unsuitable(table, column):
    index = TABLE_SCHEMA.get_field_index(column)
    DeltaTable.create(
        table.uri,
        Schema.from_arrow(TABLE_SCHEMA.set(index, pa.field(column, pa.string()))),
        partition_by=["arrival_date"],
    )
    with pytest.raises(TableUnsuitable, match=f"wrong or missing: {column}"):
        freeze_all(table, shards("a"))


def test_a_table_with_another_partitioning_is_unsuitable(table):
    DeltaTable.create(table.uri, Schema.from_arrow(TABLE_SCHEMA), partition_by=["shard_id"])
    with pytest.raises(TableUnsuitable, match="partition column"):
        freeze_all(table, shards("a"))


def test_additional_columns_are_kept(table):
    schema = TABLE_SCHEMA.append(pa.field("note", pa.string()))
    DeltaTable.create(table.uri, Schema.from_arrow(schema), partition_by=["arrival_date"])
    frozen = freeze_all(table, shards("a"))
    Attempt(table, frozen, {"a": 2}).commit()
    assert rows_by_shard(table) == {"a": [1, 2]}


def test_a_missing_table_raises_table_missing(table):
    with pytest.raises(TableMissing, match=table.uri):
        table.snapshot()


@pytest.mark.usefixtures("frozen")
def test_a_truncated_log_entry_raises_table_unreachable(table):
    Path(table.uri, "_delta_log", f"{0:020}.json").write_text("{")
    with pytest.raises(TableUnreachable):
        table.snapshot()


def test_a_recreated_stream_is_refused_with_both_creation_times(table, frozen):
    with pytest.raises(StreamRecreated, match=r"created at 2026-01-01T00:00:00Z.*at 2026-06-01T00:00:00Z"):
        freeze_all(table, shards("a"), identity=LATER_STREAM)
    assert current_positions(table) == frozen


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "newer", "not text"])
def test_damaged_positions_raise_positions_unreadable(table, frozen, damage):
    path = Path(table.uri, f"_kinesis/positions/{frozen.commit_id}.json")
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(
            {
                "empty": b"",
                "cut": content[: len(content) // 2],
                "newer": json.dumps(json.loads(content) | {"format": FORMAT + 1}).encode(),
                "not text": b"\xff\xfe\x00",
            }[damage]
        )
    with pytest.raises(PositionsUnreadable, match=f"_kinesis/positions/{frozen.commit_id}.json"):
        freeze_all(PositionedTable(table.uri), shards("a"))


# Files that the log does not refer to


@pytest.mark.parametrize("other", ["commit_id", "stream"])
def test_a_positions_file_of_another_commit_or_stream_is_refused(table, frozen, other):
    """After a restore of the wrong file, older positions would read records a second time."""
    path = Path(table.uri, f"_kinesis/positions/{frozen.commit_id}.json")
    found = positions_file.decode(path.read_bytes())
    wrong = (
        msgspec.structs.replace(found, commit_id=frozen.commit_id - 1)
        if other == "commit_id"
        else msgspec.structs.replace(
            found, identity=msgspec.structs.replace(STREAM, arn=f"{STREAM.arn}-other")
        )
    )
    path.write_bytes(positions_file.encode(wrong))
    expected = str(frozen.commit_id - 1) if other == "commit_id" else f"{STREAM.arn}-other"
    with pytest.raises(
        PositionsUnreadable, match=f"{frozen.commit_id}.*{expected}.*Restore the original file"
    ):
        current_positions(PositionedTable(table.uri))


@pytest.mark.parametrize("other", ["commit_id", "stream"])
def test_an_amendment_file_of_another_commit_or_stream_is_refused(table, frozen, other):
    amendment = Amendment(
        format=AMENDMENT_FORMAT,
        commit_id=new_id(),
        previous=None,
        batch_id=new_id(),
        at=LATER_STREAM.created,
    )
    table.snapshot().commit([], identity=frozen.identity, amendment=amendment)
    path = Path(table.uri, f"_kinesis/past/{amendment.commit_id}.json")
    changes = {"token": amendment.commit_id - 1} if other == "commit_id" else {"arn": f"{STREAM.arn}-other"}
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    expected = str(next(iter(changes.values())))
    with pytest.raises(
        PositionsUnreadable, match=f"{amendment.commit_id}.*{expected}.*Restore the original file"
    ):
        PositionedTable(table.uri).snapshot().amendment(STREAM)


def test_an_amendment_of_format_1_without_a_stream_is_read(table, frozen):
    amendment = Amendment(format=1, commit_id=new_id(), previous=None, batch_id=1, at=LATER_STREAM.created)
    table.snapshot().commit([], identity=frozen.identity, amendment=amendment)
    path = Path(table.uri, f"_kinesis/past/{amendment.commit_id}.json")
    path.write_bytes(msgspec.json.encode(amendment))
    assert PositionedTable(table.uri).snapshot().amendment(STREAM) == amendment
