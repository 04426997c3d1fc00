"""The records that a typed table has separated, as its table of errors consumes them."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from kinesis_assets import new_rows
from kinesis_assets.derive import commit as commits
from kinesis_assets.derive.commit_entry import entry_path
from kinesis_assets.derive.cursor import Cursor
from kinesis_assets.derive.data_files import BATCH_COLUMN, ERRORS_FOLDER
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.losses import lost_rows
from kinesis_assets.derive.new_rows import backlog_of
from kinesis_assets.derive.policy import Deletion
from kinesis_assets.errors import SourceCommitsMissing, TableOfAnotherSource
from support.mentions import assert_mentions
from support.plain_derived import PlainDerived
from support.table_folder import folder_of


@pytest.fixture
def typed(tmp_path):
    return PlainDerived(tmp_path / "orders", partitioned=False)


@pytest.fixture
def before(monkeypatch):
    """Let the release before this one commit, which recorded no errors."""

    def before(typed, *rows, **settings):
        with monkeypatch.context() as patched:
            patched.setattr(commits, "FORMAT", 2)
            return typed.append(*rows, **settings)

    return before


def errors_of(typed, since=None, **settings):
    """Return the next records after a position, and the position after them."""
    rows = new_rows(f"{typed.table.uri}/{ERRORS_FOLDER}", since, **settings)
    found = []
    for file in rows.files:
        with typed.table.files.open_input_file(file.path) as opened:
            found += pq.read_table(opened).to_pylist()
    assert all(rows.selection.includes(row[BATCH_COLUMN]) for row in found)
    return [row["data"] for row in found], rows


def source_of(typed):
    return open_source(f"{typed.table.uri}/{ERRORS_FOLDER}")


def test_each_record_is_consumed_once_whatever_was_committed_in_between(typed):
    typed.append((1, 1, "a"), errors=[b"one", b"two"])
    typed.append((2, 2, "a"), errors=[])
    found, first = errors_of(typed)
    assert (found, first.more, first.lost) == ([b"one", b"two"], False, [])
    typed.append((3, 3, "a"))  # as if bad records were kept in the table for some time
    typed.append(errors=[b"three"])
    typed.append(errors=[b"four"])
    found, second = errors_of(typed, first.cursor, max_bytes=1)
    assert (found, second.more) == ([b"three"], True)
    assert errors_of(typed, second.cursor)[0] == [b"four"]


def test_a_commit_without_bad_records_moves_no_position(typed):
    typed.append((1, 1, "a"), errors=[b"one"])
    _, rows = errors_of(typed)
    typed.append((2, 2, "a"), errors=[])
    assert errors_of(typed, rows.cursor)[1].cursor == rows.cursor
    assert backlog_of(source_of(typed), rows.cursor).since is None
    typed.append(errors=[b"two"])
    assert backlog_of(source_of(typed), rows.cursor).commits == 1


def test_a_redrive_is_consumed_in_a_step_of_its_own_with_what_it_removes(typed):
    typed.append((1, 1, "a"), errors=[b"one"])
    typed.append(errors=[b"two"])
    typed.append((2, 2, "a"), errors=[b"two, for another reason"], redriven=[b"one", b"two"])
    typed.append((3, 3, "a"), errors=[], redriven=[b"three"])
    typed.append((4, 4, "a"), errors=[])
    typed.append(errors=[b"four"])
    steps, cursor, more = [], None, True
    while more:
        found, rows = errors_of(typed, cursor)
        steps.append((found, len(rows.replaced), rows.more))
        cursor, more = rows.cursor, rows.more
    assert steps == [
        ([b"one", b"two"], 0, True),
        ([b"two, for another reason"], 1, True),
        ([], 1, True),
        ([b"four"], 0, False),
    ]


def test_a_rebuilt_table_is_noticed(typed):
    typed.append(errors=[b"one"])
    _, rows = errors_of(typed)
    typed.rebuild()
    with pytest.raises(SourceCommitsMissing, match="it was rebuilt"):
        errors_of(typed, rows.cursor)
    typed.append(errors=[b"one"])
    assert errors_of(typed)[0] == [b"one"]


def test_nothing_is_lost_with_a_rebuilt_table(typed):
    below = typed.append(errors=[b"one"])
    assert lost_rows(source_of(typed), below) == 0
    typed.rebuild()
    assert lost_rows(source_of(typed), below) == 0


def test_a_table_of_errors_that_starts_late_misses_what_is_no_longer_recorded(typed):
    first = typed.append(errors=[b"one"])
    second = typed.append(errors=[b"two"])
    (folder_of(typed.table) / entry_path(first.commit_id)).unlink()
    found, rows = errors_of(typed)
    assert found == [b"two"]
    assert [each.deletion for each in rows.lost] == [Deletion.FORGOTTEN]
    assert lost_rows(source_of(typed), second) is None
    found, rows = errors_of(typed, source_of(typed).start)  # as after an explicit rebuild
    assert (found, rows.lost) == ([b"two"], [])
    with pytest.raises(SourceCommitsMissing):
        errors_of(typed, Cursor(source=typed.id))


# Tables of errors that an older release derived


def test_a_table_of_errors_at_the_same_position_is_taken_over(typed, before):
    before(typed, (1, 1, "a"))
    newest = before(typed, (2, 2, "a"))
    found, taken = errors_of(typed, newest.cursor)
    assert (found, taken.cursor.source) == ([], typed.id)
    typed.append((3, 3, "a"), errors=[])
    typed.append(errors=[b"one"])
    assert errors_of(typed, newest.cursor)[0] == [b"one"]
    assert errors_of(typed, taken.cursor)[0] == [b"one"]


@pytest.mark.parametrize("behind", [True, False], ids=["behind", "ahead"])
def test_a_table_of_errors_at_another_position_is_refused(typed, before, behind):
    earlier = before(typed, (1, 1, "a"))
    newest = before(typed, (2, 2, "a"))
    ahead = Cursor(source="source", commit=9)
    typed.append(errors=[b"one"])
    cursor = earlier.cursor if behind else ahead
    with pytest.raises(TableOfAnotherSource) as raised:
        errors_of(typed, cursor)
    assert_mentions(str(raised.value), str(cursor), str(newest.cursor), "`kinesis-assets rebuild` for both")
    with pytest.raises(TableOfAnotherSource):
        backlog_of(source_of(typed), cursor)
    typed.rebuild()
    typed.append((1, 1, "a"), (2, 2, "a"), errors=[b"one", b"two"])
    assert errors_of(typed)[0] == [b"one", b"two"]


def test_a_table_of_errors_is_refused_if_the_typed_table_was_started_again(typed, before):
    newest = before(typed, (1, 1, "a"))
    typed.rebuild()
    with pytest.raises(TableOfAnotherSource):
        errors_of(typed, newest.cursor)


def test_a_new_table_of_errors_misses_the_records_of_an_older_release(typed, before):
    before(typed, (1, 1, "a"))
    typed.append(errors=[b"one"])
    found, rows = errors_of(typed)
    assert (found, [each.deletion for each in rows.lost]) == ([b"one"], [Deletion.FORGOTTEN])
    with pytest.raises(SourceCommitsMissing, match="an older release made them"):
        errors_of(typed, Cursor(source=typed.id))


def test_a_new_table_of_errors_misses_nothing_if_bad_records_were_kept_in_the_table(typed, before):
    before(typed, (1, 1, "a"))
    typed.append((2, 2, "a"))
    typed.append(errors=[b"one"])
    found, rows = errors_of(typed)
    assert (found, rows.lost) == ([b"one"], [])
