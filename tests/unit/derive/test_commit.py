"""Commits of a derived table, without Spark: which is the own one, what is refused, and their metrics."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.derive.derived_table import DerivedSnapshot
from kinesis_assets.errors import CursorConflict, DataFileInvalid, TableRewritten, UpsertOvertaken
from kinesis_assets.metrics import COMMIT_DURATION
from kinesis_assets.table.store.chain import Chain
from support.plain_derived import PlainDerived
from support.table_folder import folder_of

pytestmark = pytest.mark.any_format


@pytest.fixture
def derived(tmp_path):
    derived = PlainDerived(tmp_path / "derived")
    derived.append((1, 1, "a"))
    return derived


def test_a_store_that_does_not_answer_holds_up_no_other_table(derived, tmp_path, monkeypatch):
    silent = PlainDerived(tmp_path / "silent")
    silent.append((1, 1, "a"))
    asked, answer, at = threading.Event(), threading.Event(), Chain.at

    def wait_for_answer(chain, *arguments):
        if chain is silent.table.entries:
            asked.set()
            answer.wait()
        return at(chain, *arguments)

    monkeypatch.setattr(Chain, "at", wait_for_answer)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(lambda: silent.table.snapshot().newest)
        assert asked.wait(SECONDS)
        try:
            other = pool.submit(lambda: derived.table.snapshot().newest)
            assert other.result(SECONDS) is not None
        finally:
            answer.set()
    assert waiting.result() is not None


@pytest.fixture
def lose_response(monkeypatch):
    """Have the next commit lose its response, and call a function before that is noticed."""

    def lose(then=lambda: None):
        real = DerivedSnapshot.commit

        def commit(*arguments, **named):
            monkeypatch.setattr(DerivedSnapshot, "commit", real)
            real(*arguments, **named)
            then()
            raise OSError("connection reset")

        monkeypatch.setattr(DerivedSnapshot, "commit", commit)

    return lose


@pytest.fixture
def before_commit(monkeypatch):
    """Call a function once, between the checks of the next commit and the commit itself."""

    def act_first(act):
        real = DerivedSnapshot.commit

        def commit(*arguments, **named):
            monkeypatch.setattr(DerivedSnapshot, "commit", real)
            act()
            real(*arguments, **named)

        monkeypatch.setattr(DerivedSnapshot, "commit", commit)

    return act_first


@pytest.mark.parametrize("others", [0, 2])
def test_a_commit_whose_response_is_lost_is_found(derived, lose_response, others):
    lose_response(lambda: [derived.append((3, number, "a")) for number in range(others)])
    found = derived.append((2, 2, "a"))
    assert found.rows == 1
    assert found.previous != derived.table.snapshot().commit_id
    assert derived.rows.total() == 2 + others
    assert derived.batch_ids[found.batch_id] == 1


def test_an_attempt_conflicts_with_another_one(derived):
    late = derived.planned([(2, 2, "a")])
    derived.append((3, 3, "a"))
    with pytest.raises(CursorConflict):
        late()
    assert derived.rows.keys() == {(1, 1, "a"), (3, 3, "a")}


def test_an_attempt_conflicts_with_a_rebuild_although_the_chain_no_longer_has_its_predecessor(derived):
    late = derived.planned([(2, 2, "a")])
    derived.rebuild()
    derived.append((3, 3, "a"))
    with pytest.raises(CursorConflict):
        late()
    assert derived.rows.keys() == {(3, 3, "a")}


@pytest.mark.parametrize(
    "named",
    [{}, {"errors": [b"bad"]}, {"errors": [], "redriven": [b"bad"]}],
    ids=["rows", "errors", "redriven"],
)
def test_a_missing_file_prevents_the_commit(derived, named):
    folder = folder_of(derived.table)
    before = {*folder.rglob("*.parquet")}
    late = derived.planned([] if named else [(2, 2, "a")], **named)
    (written,) = {*folder.rglob("*.parquet")} - before
    written.unlink()
    with pytest.raises(DataFileInvalid):
        late()
    assert derived.rows.keys() == {(1, 1, "a")}


def test_an_entry_counts_the_rows_that_were_added_and_those_that_were_deleted(derived):
    derived.append((2, 2, "a"), (3, 3, "b"))
    upserted = derived.upsert((2, 4, "a"), (4, 4, "b"))
    assert (upserted.rows, upserted.deleted) == (2, 1)
    rebuilt = derived.rebuild()
    assert (rebuilt.rows, rebuilt.deleted) == (0, 4)
    assert (rebuilt.previous, derived.rows.total()) == (None, 0)


@pytest.mark.delta
def test_an_upsert_is_refused_after_a_compaction_of_one_of_several_files_that_it_replaces(derived):
    derived.append((2, 2, "a"))
    derived.append((3, 3, "b"))
    late = derived.planned([(1, 9, "a"), (3, 9, "b")], replacing=True)
    derived.table.snapshot().delta.optimize.compact()
    with pytest.raises(UpsertOvertaken):
        late()
    assert derived.rows.keys() == {(1, 1, "a"), (2, 2, "a"), (3, 3, "b")}


@pytest.mark.delta
def test_an_upsert_is_refused_if_another_program_appends_rows_just_before_it_commits(derived, before_commit):
    other = pa.table({"key": [1], "value": [5], "part": ["a"], "_batch_id": [None]})
    late = derived.planned([(1, 9, "a")], replacing=True)
    before_commit(lambda: write_deltalake(derived.table.uri, other, mode="append"))
    with pytest.raises(UpsertOvertaken):
        late()
    assert derived.rows.keys() == {(1, 1, "a"), (1, 5, "a")}


@pytest.mark.delta
def test_rows_are_appended_at_once_if_a_compaction_comes_just_before(derived, before_commit):
    planned_on = derived.append((2, 2, "a")).examined + 1
    late = derived.planned([(3, 3, "a")])
    before_commit(DeltaTable(derived.table.uri).optimize.compact)
    assert late().examined == planned_on
    assert derived.rows.keys() == {(1, 1, "a"), (2, 2, "a"), (3, 3, "a")}


@pytest.fixture
def restored(derived):
    """A table that was restored to its first row."""
    version = derived.table.snapshot().version
    derived.append((2, 2, "a"))
    DeltaTable(derived.table.uri).restore(version)
    return derived


@pytest.mark.delta
def test_a_commit_after_a_restore_is_refused(restored):
    with pytest.raises(TableRewritten):
        restored.append((3, 3, "a"))
    assert restored.rows.keys() == {(1, 1, "a")}


@pytest.mark.delta
def test_a_rebuild_after_a_restore_is_committed(restored):
    assert restored.rebuild().previous is None
    restored.append((3, 3, "a"))
    assert restored.rows.keys() == {(3, 3, "a")}


def test_a_commit_records_how_long_it_took(derived, measurements):
    derived.append((2, 2, "a"))
    measurements.read()
    assert measurements.of(COMMIT_DURATION) == {(derived.table.uri,): 1}


def test_a_conflict_is_recorded_as_the_error_of_the_commit(derived, measurements):
    late = derived.planned([(2, 2, "a")])
    derived.append((3, 3, "a"))
    with pytest.raises(CursorConflict):
        late()
    measurements.read()
    uri = derived.table.uri
    assert measurements.of(COMMIT_DURATION) == {(uri,): 1, (uri, "CursorConflict"): 1}
