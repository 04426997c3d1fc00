"""Tables that a router leads to have the very rows that typed tables below the raw table have."""

from __future__ import annotations

import gzip
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.dagster.derived.typed_rows import RoutedRows
from kinesis_assets.derive.data_files import ERRORS_FOLDER
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.policy import MAX_BYTES
from kinesis_assets.derive.rebuild import rebuild
from kinesis_assets.derive.redrive import redrive
from support.derived import maintain_derived
from support.formats import derived_at, derived_format, derived_rows
from support.routed import ORDER, Routed, event

if TYPE_CHECKING:
    from support.derived import DerivedBench

pytestmark = pytest.mark.any_format


LINES = {"split": "lines", "compression": "gzip"}


@pytest.fixture
def routed(bench, derived, tmp_path):
    return lambda **settings: Routed(bench, derived, tmp_path, settings)


def rows_of(table: DerivedBench, *without: str) -> list[dict[str, Any]]:
    """Return the rows of a table, without its batch ids."""
    found = derived_rows(table.table).to_pylist()
    left = [
        {name: value for name, value in row.items() if name not in ("_batch_id", *without)} for row in found
    ]
    return sorted(left, key=repr)


def events(commit: int) -> list[bytes]:
    """Return events of which many are equal in `order_by`, among others of several kinds."""
    kinds = ["placed", "paid", 7, "other", None]
    return [
        event(kinds[number % 5], number % 7, (number * (commit + 3)) % 3, 100 * commit + number)
        for number in range(60)
    ]


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        pytest.param({}, MAX_BYTES, id="records in one step", marks=pytest.mark.thorough),
        pytest.param({}, 1, id="records in many", marks=pytest.mark.thorough),
        pytest.param(LINES, MAX_BYTES, id="lines in gzip in one step", marks=pytest.mark.thorough),
        pytest.param(LINES, 1, id="lines in gzip in many"),
    ],
)
def test_an_upsert_below_a_router_has_the_rows_of_one_below_the_raw_table(routed, settings, steps):
    tables = routed(**settings)
    direct, router, orders = tables.direct(), tables.router(max_bytes=steps), tables.of_route(0)
    for commit in range(4):
        payloads = events(commit)
        if settings:
            payloads = [gzip.compress(b"\n".join(payloads[n : n + 20])) for n in range(0, 60, 20)]
        tables.ingest(*payloads)
        if commit == 1:  # the rest is the history of both
            router.run()
            orders.run(max_bytes=steps)
    assert router.run()
    orders.run(max_bytes=steps)
    direct.run()
    assert len(rows_of(direct)) == 7
    without = ["document_number"] if settings else []
    assert rows_of(orders, *without) == rows_of(direct, *without)


def test_of_equal_rows_that_of_the_later_commit_or_document_is_newer_whatever_file_of_the_router_has_it(
    routed,
):
    tables = routed(split="lines")
    router, orders, bench = tables.router(), tables.of_route(0), tables.bench
    bench.split(bench.shard_ids[0])
    tables.ingest()
    _, first, second = bench.shard_ids
    bench.put(event("placed", 3, v=1), shard_id=first)
    bench.put(event("placed", 3, v=2), shard_id=second)
    lines = [event("paid", 1, v=1), event("placed", 2, v=1), event("placed", 1, v=2), event("paid", 2, v=2)]
    bench.put(b"\n".join(lines), shard_id=second)
    for shard_id in (second, first):  # so the greater sequence number is in the earlier commit
        assert not bench.run([shard_id]).errors
    (_,) = router.run()
    orders.run()
    assert orders.values("id", "v") == [(1, 2), (2, 2), (3, 1)]


def test_each_document_is_in_the_table_of_its_route_or_has_none(routed):
    tables = routed()
    router, orders, users = tables.router(), tables.of_route(0), tables.of_route(1)
    tables.ingest(
        event("placed", 1), event(7, "u"), event("other"), b"not json", event("paid", "two"), event("paid", 3)
    )
    (made,) = router.run()
    assert made.routed == {"placed": 1, "paid": 2, "7": 1, "": 2}
    assert (made.records, made.bad_records, made.unmatched) == (6, 1, 2)
    unmatched = [row for row in rows_of(router) if row["route"] is None]
    assert {row["data"]: row["error"] is None for row in unmatched} == {
        event("other"): True,
        b"not json": False,
    }
    orders.run()
    users.run()
    assert {row["id"] for row in rows_of(orders)} == {1, 3}
    assert [row["id"] for row in rows_of(users)] == ["u"]
    errors = tables.table(
        str(tables.path / "errors"),
        RoutedRows(tables.routes.tables[0], ORDER).of_errors,
        source=f"{orders.table.uri}/{ERRORS_FOLDER}",
        source_format=derived_format(orders.table.uri),
    )
    errors.run()
    (bad,) = rows_of(errors)
    assert (bad["data"], bad["sequence_number"] != "") == (event("paid", "two"), True)
    assert "route" not in bad


def test_a_table_reads_only_files_of_its_route_and_each_row_once(routed):
    tables = routed()
    router, users = tables.router(), tables.of_route(1)
    for number in range(2):
        tables.ingest(event("placed", number), event(7, str(number)))
        router.run()
        users.run()
    for file in router.table.snapshot().data_files():
        if file.partition["route"] != "7":
            router.table.files.delete_file(file.path)  # a table that reads it fails
    later = replace(users, table=derived_at(f"{users.table.uri}_later"))
    assert [len(each.rows) for each in (users, later) if each.run() is not None] == [2, 2]


def test_a_router_and_the_tables_below_it_start_again_by_a_rebuild_of_each(routed):
    tables = routed()
    router, orders = tables.router(), tables.of_route(0)
    tables.ingest(event("placed", 1), event("paid", 2))
    for each in (router, orders):
        each.run()
    for each in (router, orders):
        made = each.derivation
        source = open_source(made.source, format=made.source_format)
        rebuild(each.table, source, made.definition, made.partition_by, by="ann", apply=True)
    tables.ingest(event("paid", 3))
    for each in (router, orders):
        each.run()
    assert orders.values("id") == [1, 2, 3]


def test_compaction_of_the_router_changes_nothing_for_its_tables(routed):
    tables = routed()
    router, orders, direct = tables.router(), tables.of_route(0), tables.direct()
    for commit in range(3):
        tables.ingest(*events(commit))
        router.run()
    orders.run()
    tables.ingest(*events(3))
    router.run()
    assert "compact" in {step.step for step in maintain_derived(router)}
    orders.run()
    direct.run()
    assert rows_of(orders) == rows_of(direct)


@pytest.mark.thorough
def test_a_bad_record_of_a_route_is_redriven_from_its_router(spark, routed):
    tables = routed()
    router, users = tables.router(), tables.of_route(1)
    tables.ingest(event(7, 5), event(7, "u"))
    router.run()
    users.run()
    corrected = RoutedRows(tables.routes.tables[1], "id VARIANT").of_table
    derivation = replace(users.derivation, transform=corrected, careful=partial(corrected, is_careful=True))
    redrive(spark, users.table, derivation, by="a test", apply=True)
    assert [(row["id"], row["error"]) for row in rows_of(users)] == [("5", None), ("u", None)]


def test_bad_documents_of_a_route_are_redriven_each_for_itself(spark, routed):
    tables = routed(split="lines")
    router, users = tables.router(), tables.of_route(1)
    tables.ingest(b"\n".join([event(7, 5), event("other"), event(7, "u"), event(7, 6)]), event(7, 8))
    router.run()
    users.run()
    corrected = RoutedRows(tables.routes.tables[1], "id VARIANT").of_table
    derivation = replace(users.derivation, transform=corrected, careful=partial(corrected, is_careful=True))
    found = redrive(spark, users.table, derivation, by="a test", apply=True)
    assert (found.records, found.decoded, found.reasons) == (3, 3, {})
    assert sorted((row["id"], row["error"]) for row in rows_of(users)) == [
        ("5", None),
        ("6", None),
        ("8", None),
        ("u", None),
    ]
    assert redrive(spark, users.table, derivation, by="a test", apply=True).records == 0
