"""`new_rows`: the rows of a table after a position, for any engine."""

from __future__ import annotations

import re
from datetime import UTC, date
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets import Cursor, new_rows, read_table
from kinesis_assets.derive import data_files
from kinesis_assets.derive.cursor import BatchRecords, Selection, are_among
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.new_rows import next_rows, refuse_next_run, rows_since
from kinesis_assets.derive.policy import OnDeleted
from kinesis_assets.derive.raw_source import RawSource
from kinesis_assets.errors import (
    InvalidInput,
    PositionsUnreadable,
    SourceRowsDeleted,
    SourceRowsMissing,
    TableMissing,
    TableOfAnotherSource,
    TableRewritten,
    TableUnsuitable,
)
from kinesis_assets.table.maintenance.steps import MaintenanceLimits
from kinesis_assets.table.ownership import OWNER
from kinesis_assets.table.positions.positions_chain import PositionsChain
from kinesis_assets.table.positions.positions_file import CommitRef
from support.conditions import Condition
from support.derived import maintain_table
from support.formats import append, iceberg_of, settings_of, table_of
from support.iceberg.foreign import expire_all_but_current
from support.plain_derived import PlainDerived
from support.single_task import land_as_in_spark
from support.timing import WRITING

pytestmark = pytest.mark.slow


def land(bench, *items):
    bench.put(*items)
    bench.run()


@pytest.mark.parametrize("read", [new_rows, partial(read_table, None)], ids=["new_rows", "read_table"])
def test_an_iceberg_table_without_its_catalog_or_its_name_there_is_refused(tmp_path, read):
    table = table_of("iceberg", str(tmp_path / "table"), WRITING)
    table.create_if_missing()
    catalog = settings_of(table)["catalog"]
    with pytest.raises(TableUnsuitable, match="need the catalog"):
        read(table.uri)
    with pytest.raises(InvalidInput, match="catalog: name"):
        read(table.uri, catalog={key: value for key, value in catalog.items() if key != "name"})
    with pytest.raises(TableMissing, match=r"no table lake\.others"):
        read(table.uri, catalog={**catalog, "name": "others"})


def items(bench, rows):
    """Read selected rows from their files, as any engine can."""
    found = []
    for file in rows.files:
        with bench.table.files.open_input_file(file.path) as source:
            found += pq.read_table(source, columns=["data", "batch_id"]).to_pylist()
    return sorted(int(row["data"]) for row in found if rows.selection.includes(row["batch_id"]))


@pytest.fixture
def landed(bench):
    """A table with the numbers 1 and 2, each in a commit of its own."""
    bench.create()
    land(bench, 1)
    land(bench, 2)
    return bench


def test_without_a_position_all_rows_are_new(landed):
    assert items(landed, new_rows(landed.table.uri)) == [1, 2]


def test_after_a_position_only_later_rows_are_new(landed):
    cursor = new_rows(landed.table.uri).cursor
    land(landed, 3)
    rows = new_rows(landed.table.uri, cursor)
    assert (items(landed, rows), rows.more) == ([3], False)


def test_steps_over_compacted_files_are_bounded(landed):
    cursor = new_rows(landed.table.uri).cursor
    for number in (3, 4, 5):
        land(landed, number)
    DeltaTable(landed.table.uri).optimize.compact()
    rows = new_rows(landed.table.uri, cursor, max_bytes=1)
    assert (items(landed, rows), rows.more) == ([3], True)
    file = rows.bytes  # an equal part for each of five commits, of which three are new
    rows = new_rows(landed.table.uri, cursor, max_bytes=file // 2)
    assert (items(landed, rows), rows.more) == ([3, 4], True)


@pytest.fixture
def sought(bench):
    """A table that was compacted after a row, a seek back and another row; and the position before these.

    So each of the three batches has a third of the file.
    """
    first, second = bench.create(2)
    bench.put(0, shard_id=first)
    bench.run()
    cursor = new_rows(bench.table.uri).cursor
    for number in (1, 2):
        bench.put(number, shard_id=second)
        bench.run([second])
        if number == 1:
            bench.seek("TRIM_HORIZON", first)
    DeltaTable(bench.table.uri).optimize.compact()
    return bench, cursor


def test_both_commits_of_a_seek_are_taken_in_one_step(sought):
    bench, cursor = sought
    commits = open_source(bench.table.uri).commits_since(cursor)
    seek, amendment = sorted(commits[1:3], key=lambda commit: commit.amends)
    assert (seek.batch_id, amendment.amends) == (amendment.batch_id, True)
    rows = new_rows(bench.table.uri, cursor, max_bytes=new_rows(bench.table.uri, cursor).bytes // 2)
    assert (rows.cursor.commit, rows.cursor.amendment) == (seek.id, amendment.id)
    assert (items(bench, rows), len(rows.lost), rows.more) == ([1], 1, True)


def test_both_commits_of_a_seek_count_as_one_batch_in_the_size_of_a_step(sought):
    bench, cursor = sought
    rows = new_rows(bench.table.uri, cursor, max_bytes=new_rows(bench.table.uri, cursor).bytes * 9 // 10)
    assert (items(bench, rows), rows.more) == ([1, 2], False)


@pytest.fixture
def no_bounds_of_long_texts(monkeypatch):
    """Write files with long texts as earlier releases did: their statistics have no bounds of any column."""
    monkeypatch.setattr(data_files, "_LONGEST_BOUND", inf)


@pytest.mark.usefixtures("no_bounds_of_long_texts")
def test_files_whose_batches_are_unknown_are_read_once_in_a_step_of_their_own(tmp_path):
    source = PlainDerived(tmp_path / "source", partitioned=False)
    for number, text in enumerate(("a", "b", "c" * 5000, "d" * 5000)):
        source.append((number, number, text))
    consumer = PlainDerived(tmp_path / "consumer", source.id, partitioned=False)
    steps = list(islice(iter(lambda: consumer.consume(source, max_bytes=1), None), 4))
    assert ([step.rows for step in steps], consumer.rows) == ([1, 1, 2], source.rows)
    assert not new_rows(source.table.uri, steps[-1].cursor).files


@pytest.mark.usefixtures("no_bounds_of_long_texts")
def test_steps_over_files_whose_batches_are_unknown_are_bounded(tmp_path):
    source = PlainDerived(tmp_path / "source", partitioned=False)
    source.append((0, 0, "a"))
    cursor = new_rows(source.table.uri).cursor
    for number, text in enumerate("bcd", 1):
        source.append((number, number, text * 5000))
    rows = new_rows(source.table.uri, cursor, max_bytes=1)
    assert (len(rows.selection.only), rows.more) == (1, True)
    half = rows.bytes // 2  # an equal part of each file for each of the three commits
    rows = new_rows(source.table.uri, cursor, max_bytes=half)
    assert (len(rows.selection.only), rows.more) == (2, True)


def test_the_condition_selects_the_same_rows_in_sql(landed):
    cursor = new_rows(landed.table.uri).cursor
    land(landed, 3)
    DeltaTable(landed.table.uri).optimize.compact()
    rows = new_rows(landed.table.uri, cursor)
    assert landed.table.snapshot().count(Condition(rows.condition)) == {landed.shard_ids[0]: 1}


def test_the_arrival_dates_of_the_rows_are_known(landed):
    cursor = new_rows(landed.table.uri).cursor
    landed.later(days=1)
    land(landed, 3)
    today = landed.now.astimezone(UTC).date()
    assert new_rows(landed.table.uri, cursor).partitions("arrival_date") == [today]
    assert isinstance(today, date)


@pytest.fixture
def overlapping(bench):
    """A table with 2, and then 1 in a batch with an older id; and the position between them."""
    first, second = bench.create(2)
    bench.put(1, shard_id=first)
    bench.put(2, shard_id=second)
    cursors = []

    def land(*arguments):
        if not cursors:  # another run commits after this one has drawn its batch id
            cursors.append(None)
            bench.run([second])
            cursors.append(new_rows(bench.table.uri).cursor)
        return land_as_in_spark(*arguments)

    bench.execute(bench.plan([first]), land)
    return bench, cursors[-1]


def test_a_batch_with_an_older_id_that_was_committed_later_is_new(overlapping):
    bench, between = overlapping
    assert items(bench, new_rows(bench.table.uri, between)) == [1]


def test_the_recorded_batches_are_in_the_order_of_their_commits(overlapping):
    bench, _ = overlapping
    ids = {int(row["data"]): row["batch_id"] for row in bench.rows}
    assert ids[1] < ids[2]
    assert open_source(bench.table.uri).recorded_batches()[-2:] == (ids[2], ids[1])


def test_a_step_of_the_history_does_not_end_between_batches_that_were_committed_in_another_order(overlapping):
    bench, _ = overlapping
    bench.put(3)
    bench.run()
    source = open_source(bench.table.uri)

    def step(since, recorded):
        rows = rows_since(source, since, 1, recorded)
        return rows.cursor, (items(bench, rows), rows.more)

    assert step(None, None)[1] == ([1], True)  # to a consumer of which the order does not matter
    cursor, first = step(None, lambda _: source.recorded_batches())
    _, second = step(cursor, lambda _: source.recorded_batches())
    assert (first, second) == (([1, 2], True), ([3], False))


def test_a_replayed_batch_is_among_the_recorded_ones_in_its_place(landed):
    landed.lose(2)
    landed.replay()
    land(landed, 3)
    ids = {int(row["data"]): row["batch_id"] for row in landed.rows}
    assert open_source(landed.table.uri).recorded_batches()[-2:] == (ids[2], ids[3])


def test_batches_before_a_commit_that_was_pruned_are_not_recorded(landed, monkeypatch):
    landed.lose(1)
    landed.replay()
    land(landed, 3)
    source = open_source(landed.table.uri)
    newest = source.recorded_batches()[-1]

    def pruned(*_):
        yield CommitRef(source.end.commit, newest)
        raise PositionsUnreadable(source.uri, "pruned")

    monkeypatch.setattr(PositionsChain, "since", pruned)
    assert source.recorded_batches() == (newest,)


def test_a_position_is_stored_as_text(landed):
    cursor = new_rows(landed.table.uri).cursor
    assert Cursor.parse(str(cursor)) == cursor


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"source": 1}', '{"source": "a", "more": 1}'])
def test_text_that_is_no_position_is_refused(text):
    with pytest.raises(InvalidInput, match="cursor"):
        Cursor.parse(text)


def test_a_position_in_another_table_is_refused(landed):
    with pytest.raises(TableOfAnotherSource):
        new_rows(landed.table.uri, Cursor(source="another"))


def test_a_table_of_another_kind_is_refused(landed, tmp_path):
    write_deltalake(tmp_path / "other", DeltaTable(landed.table.uri).to_pyarrow_table().select(["data"]))
    with pytest.raises(TableUnsuitable):
        new_rows(str(tmp_path / "other"))


def test_a_missing_table_is_an_error(tmp_path):
    with pytest.raises(TableMissing):
        new_rows(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("selection", "sql"),
    [
        (Selection(), "TRUE"),
        (Selection(only=frozenset()), "FALSE"),
        (Selection(only=frozenset({2, 1})), "id IN (1, 2)"),
        (Selection(above=3, through=5, without=frozenset({4})), "id > 3 AND id <= 5 AND id NOT IN (4)"),
    ],
)
def test_a_selection_is_a_condition_in_sql(selection, sql):
    assert selection.condition("id") == sql


@pytest.mark.parametrize(
    ("first", "last", "possible"),
    [
        (1, 2, False),
        (4, 9, True),
        (6, 9, False),
        (None, None, True),
        (None, 3, False),
        (6, None, False),
        (4, 4, False),
    ],
)
def test_files_without_selected_rows_are_left_out(first, last, possible):
    selection = Selection(above=3, through=5, without=frozenset({4}))
    assert selection.may_include(first, last) is possible


def test_records_are_found_after_the_first_place_and_up_to_the_last_one_of_a_shard_and_a_batch():
    rows = [
        (1, "a", "9", 0),
        (1, "a", "10", 0),
        (1, "a", "10", 1),
        (1, "a", "100", 5),
        (1, "a", "101", 0),
        (2, "a", "10", 1),
        (1, "b", "10", 1),
    ]
    names = ["batch_id", "shard_id", "sequence_number", "sub_sequence_number"]
    batch = pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    found = are_among(batch, [BatchRecords(1, "a", (10, 0), (100, inf))])
    assert found.to_pylist() == [False, False, True, True, False, False, False]


# Sources in unusual states


def test_a_table_of_an_older_release_that_names_no_stream_has_positions_nevertheless(landed):
    for entry in Path(landed.table.uri, "_delta_log").glob("*.json"):
        owner = rf'"{re.escape(OWNER)}":"[^"]*",?'
        entry.write_text(re.sub(owner, "", entry.read_text()).replace(",}", "}"))
    assert landed.table.snapshot().owner is None
    cursor = new_rows(landed.table.uri).cursor
    land(landed, 3)
    assert items(landed, new_rows(landed.table.uri, cursor)) == [3]


@pytest.mark.parametrize("deleted", ["data = '3'", "TRUE"], ids=["one of two", "all"])
def test_rows_that_are_missing_without_an_amendment_are_an_error(landed, deleted):
    cursor = new_rows(landed.table.uri).cursor
    land(landed, 3, 4)
    DeltaTable(landed.table.uri).delete(deleted)
    with pytest.raises(SourceRowsMissing, match=landed.shard_ids[0]):
        new_rows(landed.table.uri, cursor)


def test_rows_that_expired_below_a_floor_that_was_consumed_before_are_reported_as_deleted(bench_of_today):
    bench = bench_of_today
    bench.create()
    bench.set_retention(hours=1000)
    bench.later(hours=(36 - bench.now.hour) % 24)  # about noon, so that both records arrive on one day
    land(bench, 1)
    bench.put(2)
    bench.later(days=3)
    maintain_table(bench, retention_days=2)
    cursor = new_rows(bench.table.uri).cursor
    bench.run()  # its record arrived before the floor
    maintain_table(bench, retention_days=2)
    assert bench.items == []
    (deleted,) = new_rows(bench.table.uri, cursor).deleted
    assert "1 rows" in deleted


@pytest.mark.parametrize(("later", "lost", "left"), [(0, 0, [2, 3]), (1, 1, [3])], ids=["consumed", "unread"])
def test_rows_that_expire_between_the_first_steps_are_lost_only_if_they_were_not_consumed(
    bench_of_today, later, lost, left
):
    bench = bench_of_today
    bench.create()
    bench.set_retention(hours=1000)
    bench.later(hours=(36 - bench.now.hour) % 24)  # about noon, so that each one arrives on its own day
    for number in (1, 2, 3):
        land(bench, number)
        bench.later(days=1)
    rows = new_rows(bench.table.uri, max_bytes=1)
    assert items(bench, rows) == [1]
    bench.later(days=later)
    maintain_table(bench, retention_days=2)
    rows = new_rows(bench.table.uri, rows.cursor)
    assert (len(rows.deleted), items(bench, rows)) == (lost, left)


def restore_and_recover(bench, version):
    """Restore a table, and recover from it as docs/recovery.md says."""
    bench.restore(version)
    bench.replay()
    bench.adopt()


def test_rows_that_another_program_deleted_are_added_again_by_the_replay_that_the_error_names(landed):
    cursor = new_rows(landed.table.uri).cursor
    land(landed, 3)
    landed.lose(3)
    with pytest.raises(SourceRowsMissing, match="replay"):
        new_rows(landed.table.uri, cursor)
    landed.replay()
    assert items(landed, new_rows(landed.table.uri, cursor)) == [3]


def test_rows_of_a_replay_that_a_restore_took_away_need_the_rebuild_that_the_error_names(landed):
    cursor = new_rows(landed.table.uri).cursor
    land(landed, 3)
    version = landed.version
    landed.lose(3)
    landed.replay()
    restore_and_recover(landed, version)
    landed.replay()  # adds nothing
    with pytest.raises(SourceRowsMissing, match="rebuild"):
        new_rows(landed.table.uri, cursor)
    assert items(landed, new_rows(landed.table.uri)) == [1, 2, 3]


def test_the_position_after_a_replay_names_its_amendment_and_the_same_commit(landed):
    before = new_rows(landed.table.uri).cursor
    landed.lose(2)
    landed.replay()
    after = new_rows(landed.table.uri, before).cursor
    assert after.commit == before.commit
    amendment = landed.table.snapshot().amendment(landed.client.describe().identity)
    assert after.amendment == amendment.commit_id


def test_two_restores_during_the_first_steps_double_no_row_unseen(landed):
    first_read = landed.version
    landed.lose(2)
    landed.replay()  # in a batch of its own
    land(landed, 3)
    read_again = landed.version
    restore_and_recover(landed, first_read)
    rows = new_rows(landed.table.uri, max_bytes=1)
    found = items(landed, rows)
    rows = new_rows(landed.table.uri, rows.cursor, max_bytes=1)
    assert found + items(landed, rows) == [1, 2]
    restore_and_recover(landed, read_again)
    rows = new_rows(landed.table.uri, rows.cursor, max_bytes=1)
    assert items(landed, rows) == [2]
    assert rows.lost


@pytest.fixture
def consumer(landed, tmp_path):
    """A derived table that has consumed 1 and 2."""
    consumed = new_rows(landed.table.uri).cursor
    table = PlainDerived(tmp_path / "consumer", consumed.source)
    table.append((1, 1, "a"))
    table.append((2, 2, "a"), cursor=consumed)
    return table.table


def next_of(consumer, landed, on_deleted="fail", *, is_rollup=False):
    """Return what the next run of the derived table consumes, or why it starts again."""
    return next_rows(
        consumer.uri,
        consumer.snapshot(),
        open_source(landed.table.uri),
        on_deleted=OnDeleted(on_deleted),
        max_bytes=inf,
        is_rollup=is_rollup,
    )


def test_a_derived_table_consumes_the_rows_after_its_own_position(consumer, landed):
    land(landed, 3)
    assert items(landed, next_of(consumer, landed)) == [3]


@pytest.fixture
def added_again(landed, consumer):
    """The raw table, of which a row was deleted and added again after it was consumed."""
    del consumer
    landed.lose(2)
    landed.replay()
    return landed


def test_rows_that_were_added_again_are_refused_if_the_policy_is_to_fail(consumer, added_again):
    with pytest.raises(SourceRowsDeleted):
        next_of(consumer, added_again)


def test_rows_that_were_added_again_are_left_out_and_reported_if_the_policy_is_to_ignore_them(
    consumer, added_again
):
    rows = next_of(consumer, added_again, "ignore")
    assert (added_again.table.snapshot().count(Condition(rows.condition)), len(rows.lost)) == ({}, 1)


def test_a_table_starts_again_after_rows_were_added_again_if_the_policy_is_to_rebuild(consumer, added_again):
    restart = next_of(consumer, added_again, "rebuild")
    assert (type(restart.cause), len(restart.lost)) == (SourceRowsDeleted, 1)


def test_a_rollup_computes_rows_that_were_added_again_whatever_the_policy(consumer, added_again):
    rows = next_of(consumer, added_again, is_rollup=True)
    found = added_again.table.snapshot().count(Condition(rows.condition))
    assert (found, rows.lost) == ({added_again.shard_ids[0]: 1}, [])


@pytest.fixture
def incomplete(landed, consumer):
    """The raw table, of which another program has deleted a row that was not consumed."""
    del consumer
    land(landed, 3)
    landed.lose(3)
    return landed


@pytest.mark.parametrize("policy", ["fail", "ignore"])
def test_missing_rows_are_an_error_unless_the_policy_is_to_rebuild(consumer, incomplete, policy):
    with pytest.raises(SourceRowsMissing):
        next_of(consumer, incomplete, policy)


def test_a_table_starts_again_after_missing_rows_if_the_policy_is_to_rebuild(consumer, incomplete):
    assert type(next_of(consumer, incomplete, "rebuild").cause) is SourceRowsMissing


def test_a_next_run_that_would_start_again_without_rows_that_it_consumed_is_refused(consumer, incomplete):
    incomplete.lose(1)
    with pytest.raises(SourceRowsDeleted, match="of the rows that it has consumed"):
        refuse_next_run(consumer.snapshot(), open_source(incomplete.table.uri), OnDeleted.REBUILD)


def test_a_derived_table_that_was_restored_is_refused_before_it_consumes_anything(consumer, landed):
    DeltaTable(consumer.uri).restore(DeltaTable(consumer.uri).version() - 1)
    with pytest.raises(TableRewritten):
        next_of(consumer, landed)


class TestIcebergTable:
    """The table is an Iceberg table."""

    @pytest.fixture
    def consumed(self, bench, tmp_path):
        """The position after 1 and 2."""
        bench.table = table_of("iceberg", str(tmp_path / "iceberg"), bench.table.policy)
        bench.create()
        land(bench, 1)
        land(bench, 2)
        return RawSource(bench.table).end

    def test_only_later_rows_are_new_after_a_compaction_whose_snapshots_were_expired(self, bench, consumed):
        for number in (3, 4):
            land(bench, number)
        steps = maintain_table(bench, limits=MaintenanceLimits(small_files_today=2))
        assert [step.files for step in steps if step.step == "compact"] == [4]
        expire_all_but_current(iceberg_of(bench.table))
        source = RawSource(bench.table)
        first = rows_since(source, consumed, 1)
        assert (items(bench, first), first.more) == ([3], True)
        second = rows_since(source, first.cursor, 1)
        assert (items(bench, second), second.more) == ([4], False)

    def test_rows_that_are_missing_without_an_amendment_are_an_error(self, bench, consumed):
        land(bench, 3, 4)
        bench.lose(3)
        with pytest.raises(SourceRowsMissing, match=bench.shard_ids[0]):
            rows_since(RawSource(bench.table), consumed, 1)

    def test_rows_that_another_program_added_to_a_batch_are_an_error(self, bench, consumed):
        land(bench, 3)
        append(bench.table, [bench.rows[-1]])
        with pytest.raises(TableUnsuitable, match="another program has added rows"):
            rows_since(RawSource(bench.table), consumed, 1)

    @pytest.mark.usefixtures("consumed")
    def test_a_table_that_was_rolled_back_is_refused(self, bench):
        bench.restore(bench.version - 1)
        with pytest.raises(TableRewritten, match="rollback"):
            RawSource(bench.table)
