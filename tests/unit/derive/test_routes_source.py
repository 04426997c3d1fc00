"""The rows of some routes of a router, as the tables of these routes consume them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kinesis_assets import new_rows
from kinesis_assets.derive.commit import Attempt, commit
from kinesis_assets.derive.commit_entry import Definition, Kind, entry_path
from kinesis_assets.derive.cursor import Cursor
from kinesis_assets.derive.data_files import (
    BATCH_COLUMN,
    router_and_values,
    routes_folder,
)
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.new_rows import backlog_of
from kinesis_assets.derive.row_order import ORDER_COLUMN, RowOrder
from kinesis_assets.errors import SourceCommitsMissing, TableUnsuitable
from kinesis_assets.table.commit_ids import new_id
from support.plain_derived import PlainDerived
from support.plain_router import PlainRouter
from support.shifted_clock import ShiftedClock
from support.table_folder import folder_of
from support.timing import WRITING


@pytest.fixture
def router(tmp_path):
    return PlainRouter(str(tmp_path / "events"))


def rows_of(router, *routes, since=None, **settings):
    """Return the next texts of some routes after a position, and the rows with the position after them."""
    rows = new_rows(routes_folder(router.table.uri, routes), since, **settings)
    found = []
    for file in rows.files:
        with router.table.files.open_input_file(file.path) as opened:
            found += pq.read_table(opened).to_pylist()
    return sorted(row["data"] for row in found if rows.selection.includes(row[BATCH_COLUMN])), rows


def test_each_route_has_its_own_rows_once(router):
    router.append(("a", "one"), ("b", "two"), ("c", None), ("d", "three"))
    found, first = rows_of(router, "one", "three")
    assert (found, first.more) == (["a", "d"], False)
    router.append(("e", "two"), ("f", "one"))
    assert rows_of(router, "one", "three", since=first.cursor)[0] == ["f"]
    assert rows_of(router, "two")[0] == ["b", "e"]


def test_only_the_files_of_a_route_are_read(router):
    router.append(("a", "one"), ("b", "two"), ("c", None))
    _, rows = rows_of(router, "two")
    assert [file.partition for file in rows.files] == [{"route": "two"}]


def test_a_value_may_have_any_characters(router):
    value = "a/b & c=%d ü"
    router.append(("a", value), ("b", "c"))
    assert rows_of(router, value)[0] == ["a"]
    assert router_and_values(routes_folder("s3://lake/events/", [value, "x"])) == (
        "s3://lake/events",
        {value, "x"},
    )


def test_a_path_without_routes_is_none(router):
    assert router_and_values(router.table.uri) is None


def test_a_commit_without_rows_of_a_route_is_no_backlog_of_its_table(router):
    router.append(("a", "one"))
    _, rows = rows_of(router, "one")
    router.append(("b", "two"), ("c", None))
    one, two = (open_source(routes_folder(router.table.uri, [each])) for each in ("one", "two"))
    assert backlog_of(one, rows.cursor).since is None
    assert backlog_of(two, rows.cursor).commits == 1


def test_a_commit_counts_the_rows_of_each_route(router):
    entry = router.append(("a", "one"), ("b", "two"), ("c", None), ("d", "one"), ("e", None))
    assert entry.routed == {"one": 2, "two": 1, "": 2}
    assert entry.unmatched == 2
    assert router.append(("a", "one")).unmatched == 0


def test_a_commit_of_another_table_counts_none(tmp_path):
    entry = PlainDerived(tmp_path / "orders").append((1, 1, "a"))
    assert (entry.routed, entry.unmatched) == ({}, None)


def test_a_table_that_is_no_router_is_refused(tmp_path):
    PlainDerived(tmp_path / "orders").append((1, 1, "a"))
    with pytest.raises(TableUnsuitable, match="is no router"):
        open_source(routes_folder(str(tmp_path / "orders"), ["a"]))


def test_the_recorded_batches_are_in_the_order_of_their_commits_whatever_the_clocks(router):
    batches = []
    for offset in (0, 600, -600, 0):
        policy = replace(WRITING, clock=ShiftedClock(offset))
        router.table = DerivedTable(router.table.uri, policy)
        batches.append(router.append(("a", "one")).batch_id)
    source = open_source(routes_folder(router.table.uri, ["one"]))
    assert list(source.recorded_batches()) == batches != sorted(batches)


def test_batches_before_a_commit_of_a_router_that_was_pruned_are_not_recorded(router):
    commits = [router.append(("a", "one")) for _ in range(4)]
    (folder_of(router.table) / entry_path(commits[1].commit_id)).unlink()
    source = open_source(routes_folder(router.table.uri, ["one"]))
    assert source.recorded_batches() == tuple(each.batch_id for each in commits[2:])


def test_a_rebuilt_router_is_noticed(router):
    router.append(("a", "one"))
    _, rows = rows_of(router, "one")
    base = router.table.snapshot()
    commit(
        router.table,
        Attempt(
            cursor=Cursor(source="source"),
            batch_id=new_id(router.table.clock),
            definition=Definition(kind=Kind.ROUTER),
        ),
        expected=base.commit_id,
        removed=base.data_files(),
        base=base,
        restarts=True,
    )
    router.append(("a", "one"))
    with pytest.raises(SourceCommitsMissing):
        rows_of(router, "one", since=rows.cursor)


def test_the_order_of_a_routers_rows_is_that_of_their_commits_numbers_and_documents():
    rows = [  # in the order that they are to have
        ("1001", "9", 0, "s", None),
        ("1001", "9", 0, "s", 0),
        ("1001", "9", 0, "s", 1),
        ("1001", "9", 0, "s", 10),
        ("1001", "9", 1, "s", 0),
        ("1001", "10", 0, "s", 0),
        ("1002", "9", 0, "s", 0),
    ]
    names = ["commit_order", "sequence_number", "sub_sequence_number", "shard_id", "document_number"]
    batch = pa.RecordBatch.from_pydict(
        dict(zip([*names, "id"], [*zip(*rows, strict=True), [7] * 7], strict=True))
    )
    order = RowOrder("id", (7,), names).adder()(batch)[ORDER_COLUMN].to_pylist()
    assert order == sorted(order)
    assert len(set(order)) == len(rows)
