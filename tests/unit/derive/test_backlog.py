"""What a derived table has not consumed of its source, as its checks see it."""

from __future__ import annotations

import msgspec
import pytest

from kinesis_assets import Cursor
from kinesis_assets.derive.commit_entry import ReplacedFile
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.new_rows import Backlog, backlog_of, first_unconsumed_date
from kinesis_assets.errors import SourceCommitsMissing, TableOfAnotherSource
from kinesis_assets.table.commit_ids import new_id, time_of_id
from support.formats import format_of, source_format
from support.plain_derived import PlainDerived

pytestmark = [pytest.mark.any_format, pytest.mark.slow]


def land(bench, *items):
    """Ingest numbers, and return the time of the commit."""
    bench.put(*items)
    bench.run()
    return time_of_id(bench.positions.commit_id)


def created(bench):
    """Return the time before which the table had no rows."""
    if format_of(bench.table) == "iceberg":
        return time_of_id(min(row["batch_id"] for row in bench.rows))
    return bench.delta.metadata().created_time / 1000


def opened(table):
    return open_source(table.uri, format=source_format(table))


def backlog(table, cursor, **limits):
    return backlog_of(opened(table), cursor, **limits)


@pytest.fixture
def landed(bench):
    """A stream of which one commit has landed."""
    bench.create()
    land(bench, 1)
    return bench


@pytest.fixture
def consumed(landed):
    """The position of a consumer of all of it."""
    return opened(landed.table).end


def test_nothing_is_left_after_the_newest_commit(landed, consumed):
    assert backlog(landed.table, consumed) == Backlog(None)


def test_commits_with_rows_are_left_from_the_oldest_on(landed, consumed):
    first = land(landed, 2)
    land(landed, 3)
    assert backlog(landed.table, consumed) == Backlog(first, 2)


def test_commits_without_rows_are_not_waited_for(landed, consumed):
    landed.forge()
    assert backlog(landed.table, consumed) == Backlog(None)
    first = land(landed, 2)
    assert backlog(landed.table, consumed) == Backlog(first, 1)


def test_a_consumer_far_behind_is_so_since_its_position(landed, consumed):
    for number in range(3):
        land(landed, number)
    found = backlog(landed.table, consumed, max_commits=2)
    assert found == Backlog(time_of_id(consumed.commit), 2, has_more=True)


def test_of_a_consumer_far_behind_few_commits_are_read(landed, consumed, monkeypatch):
    for number in range(5):
        land(landed, number)
    source = opened(landed.table)
    monkeypatch.delattr(type(source), "with_rows")  # it would read a file for each commit
    assert len(source.commits_since(consumed, 2)) == 2
    assert backlog_of(source, consumed, max_commits=2).has_more


def test_all_rows_are_left_before_the_first_commit_of_the_consumer(landed):
    assert backlog(landed.table, None) == Backlog(created(landed), None)


def test_a_source_without_rows_leaves_nothing_to_a_new_consumer(bench):
    bench.create()
    bench.plan()  # which creates the table
    assert backlog(bench.table, None) == Backlog(None)


def test_rows_of_the_history_are_left_until_it_is_consumed(landed, consumed):
    batch_id = landed.positions.batch_id
    started = msgspec.structs.replace(consumed, history=-1)
    assert backlog(landed.table, started) == Backlog(created(landed), None)
    halfway = msgspec.structs.replace(consumed, history=batch_id)
    assert backlog(landed.table, halfway) == Backlog(time_of_id(batch_id), None)


def test_rows_that_were_deleted_by_a_seek_are_named(landed, consumed):
    landed.seek("TRIM_HORIZON")
    (deleted,) = backlog(landed.table, consumed).deleted
    assert landed.shard_ids[0] in deleted


def test_a_position_in_another_table_is_refused(landed):
    with pytest.raises(TableOfAnotherSource):
        backlog(landed.table, Cursor(source="another", commit=1))


def test_a_position_that_the_source_does_not_record_is_refused(landed, consumed):
    with pytest.raises(SourceCommitsMissing):
        backlog(landed.table, msgspec.structs.replace(consumed, commit=new_id()))


class TestDerivedSource:
    """The source is a derived table."""

    @pytest.fixture
    def orders(self, tmp_path):
        orders = PlainDerived(tmp_path / "orders")
        orders.append((1, 0, "a"))
        return orders

    def test_commits_are_left_from_the_oldest_on(self, orders):
        cursor = opened(orders.table).end
        first = orders.append((2, 0, "a"))
        orders.append((3, 0, "a"))
        assert backlog(orders.table, cursor) == Backlog(time_of_id(first.commit_id), 2)

    def test_a_commit_that_only_deletes_rows_is_left(self, orders):
        cursor = opened(orders.table).end
        snapshot = orders.table.snapshot()
        deleting = msgspec.structs.replace(
            snapshot.newest,
            commit_id=new_id(),
            previous=snapshot.newest.commit_id,
            batch_id=new_id(),
            rows=0,
            replaced=(ReplacedFile("_kinesis/changes/part", 1, 1),),
        )
        snapshot.commit(deleting, [], exclusive=False)
        assert backlog(orders.table, cursor) == Backlog(time_of_id(deleting.commit_id), 1)

    def test_a_commit_without_rows_is_not_waited_for(self, orders):
        cursor = opened(orders.table).end
        orders.append()
        assert backlog(orders.table, cursor) == Backlog(None)

    def test_a_consumer_far_behind_is_so_since_its_position(self, orders):
        cursor = opened(orders.table).end
        for number in range(3):
            orders.append((number, 0, "a"))
        found = backlog(orders.table, cursor, max_commits=2)
        assert found == Backlog(time_of_id(cursor.commit), 2, has_more=True)

    def test_a_source_that_was_rebuilt_is_refused(self, orders):
        cursor = opened(orders.table).end
        orders.rebuild()
        with pytest.raises(SourceCommitsMissing, match="rebuilt"):
            backlog(orders.table, cursor)


def test_the_first_unconsumed_date_is_that_of_the_oldest_row_that_is_left(landed, consumed):
    def first_date():
        return first_unconsumed_date(opened(landed.table), consumed)

    assert first_date() is None
    landed.later(days=1)
    land(landed, 2)
    date = landed.rows[-1]["approximate_arrival_timestamp"].date()
    landed.later(days=1)
    land(landed, 3)
    assert first_date() == date


def test_the_first_unconsumed_date_of_a_consumer_of_the_history_is_that_of_the_oldest_row(landed):
    (row,) = landed.rows
    landed.later(days=1)
    land(landed, 2)
    before = opened(landed.table).start
    assert first_unconsumed_date(opened(landed.table), before) == row["approximate_arrival_timestamp"].date()
