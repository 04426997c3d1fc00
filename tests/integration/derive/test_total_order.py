"""A table with a key is determined by the rows of its source and their order, wherever steps end."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.decoders import from_json
from kinesis_assets.derive.derivation import Upsert
from kinesis_assets.derive.policy import MAX_BYTES
from kinesis_assets.testing import UserRecord, aggregate
from support.formats import derived_at

if TYPE_CHECKING:
    from support.derived import DerivedBench

EVENT = "id INT, at INT, v INT, gone BOOLEAN, many ARRAY<INT>"
NEWEST = Upsert(key=("id",), order_by=("at",))
UNLESS_GONE = replace(NEWEST, delete_where="gone")


def event(id_: int, at: int | None, v: int, **fields: object) -> bytes:
    return json.dumps({"id": id_, "at": at, "v": v, **fields}).encode()


def decode(rows):
    return from_json(rows, EVENT)


@pytest.fixture
def tables(derived, tmp_path):
    """Return tables of the same source that are consumed in steps of different sizes."""

    def build(transform=decode, mode=NEWEST):
        derivation = replace(derived.derivation, transform=transform, mode=mode)
        at_once, commit_by_commit = (
            replace(
                derived,
                table=derived_at(str(tmp_path / name)),
                derivation=replace(derivation, max_bytes=size),
            )
            for name, size in (("at_once", MAX_BYTES), ("commit_by_commit", 1))
        )
        return at_once, commit_by_commit

    return build


def ingest(bench, *payloads: bytes) -> None:
    bench.put(*payloads)
    assert not bench.run().errors


def consumed(*tables: DerivedBench, columns: tuple[str, ...] = ("id", "v")) -> list[list[object]]:
    for table in tables:
        table.run()
    return [table.values(*columns) for table in tables]


def versions(ids: int, *numbers: int) -> list[bytes]:
    return [event(id_, 0, number) for number in numbers for id_ in range(ids)]


def test_of_rows_that_are_equal_in_order_by_the_one_with_the_greatest_sequence_number_stays(bench, tables):
    at_once, _ = tables()
    ingest(bench, *versions(100, 5, 3, 4))
    assert consumed(at_once) == [[(id_, 4) for id_ in sorted(range(100), key=lambda id_: repr((id_, 4)))]]


@pytest.mark.thorough
@pytest.mark.parametrize("mode", [NEWEST, UNLESS_GONE])
def test_the_order_of_commits_decides_in_one_step_and_in_several(bench, tables, mode):
    both = tables(mode=mode)
    for number in (2, 3, 1):
        ingest(bench, *versions(3, number))
    assert consumed(*both) == [[(0, 1), (1, 1), (2, 1)]] * 2


def test_runs_that_overlapped_are_taken_in_the_order_of_their_commits_by_a_table_that_starts_later(
    bench, tables
):
    started_later, started_before = tables()
    first, second = bench.split(bench.shard_ids[0])
    for _ in range(2):  # the parent first
        bench.run()
    started_before.run()
    bench.put(event(1, 0, 1), shard_id=first)
    bench.put(event(1, 0, 2), shard_id=second)

    def land_after_the_other_run(*arguments):
        bench.run([second])
        return bench.land(*arguments)

    bench.execute(bench.plan([first]), land_after_the_other_run)
    in_steps = replace(started_before, table=derived_at(f"{started_before.table.uri}_later"))
    assert consumed(started_later, started_before, in_steps) == [[(1, 1)]] * 3


@pytest.mark.thorough
def test_an_insert_and_a_deletion_at_one_time_leave_no_row_in_one_step_and_in_two(bench, tables):
    both = tables(mode=UNLESS_GONE)
    ingest(bench, *versions(50, 1), *(event(id_, 0, 2, gone=True) for id_ in range(50)))
    ingest(bench, *versions(50, 1))
    ingest(bench, *(event(id_, 0, 2, gone=True) for id_ in range(50)), event(50, 0, 1))
    assert consumed(*both) == [[(50, 1)], [(50, 1)]]


@pytest.mark.thorough
def test_a_row_after_a_deletion_inserts_its_key_again_in_one_step_and_in_two(bench, tables):
    both = tables(mode=UNLESS_GONE)
    ingest(bench, event(1, 5, 1, gone=True))
    ingest(bench, event(1, 3, 2))
    assert consumed(*both) == [[(1, 2)]] * 2


def test_a_deletion_that_is_older_than_a_row_before_it_deletes_nothing_in_one_step_and_in_two(bench, tables):
    both = tables(mode=UNLESS_GONE)
    ingest(bench, event(1, 5, 1), event(2, None, 1))
    ingest(bench, event(1, 3, 2, gone=True), event(2, 1, 2, gone=True))
    assert consumed(*both) == [[(1, 1)]] * 2


def test_of_the_user_records_of_an_aggregate_the_last_one_is_newer(bench, tables):
    at_once, _ = tables()
    ingest(bench, aggregate(UserRecord("k", event(1, 0, number), "0") for number in (3, 1, 2)))
    assert consumed(at_once) == [[(1, 2)]]


def test_of_the_rows_of_one_record_the_last_one_is_newer(bench, tables):
    def exploded(rows):
        return decode(rows).select("id", "at", F.explode("many").alias("v"))

    at_once, _ = tables(exploded)
    ingest(bench, *(event(id_, 0, 0, many=[3, 1, 2]) for id_ in range(20)))
    assert {v for _, v in consumed(at_once)[0]} == {2}


def test_the_order_is_carried_through_a_join(spark, bench, tables):
    names = spark.range(100).select(F.col("id").cast("int"), F.lit("a name").alias("name"))
    both = tables(lambda rows: decode(rows).repartition(3, "v").join(names, "id", "left").select("*"))
    ingest(bench, *versions(100, 5, 3))
    ingest(bench, *versions(100, 1, 2, 0))
    assert [{v for _, v in each} for each in consumed(*both)] == [{0}, {0}]


def test_where_a_function_loses_the_order_the_row_with_the_greatest_values_is_newer(bench, tables):
    both = tables(lambda rows: decode(rows).drop("gone", "many").distinct())
    for number in (3, 1):
        ingest(bench, *versions(3, number))
    assert consumed(*both) == [[(0, 3), (1, 3), (2, 3)]] * 2


def test_rows_of_one_commit_of_a_derived_table_are_ordered_by_their_values(bench, derived, tables):
    appended = replace(derived, derivation=replace(derived.derivation, transform=decode))
    both = tables(lambda rows: rows.drop("_batch_id"))
    for table in both:
        table.derivation = replace(table.derivation, **appended.as_source)
    for numbers in ((2, 3), (1, 0)):
        ingest(bench, *versions(3, *numbers))
        appended.run()
    assert consumed(*both) == [[(0, 1), (1, 1), (2, 1)]] * 2


def in_order(events):
    """Return the rows that stay if events are taken one after the other."""
    rows: dict[int, tuple[int, int]] = {}
    for id_, at, v, gone in events:
        before = rows.get(id_)
        if before is not None and before[0] > at:
            continue
        if gone:
            rows.pop(id_, None)
        else:
            rows[id_] = (at, v)
    return sorted(((id_, v) for id_, (_, v) in rows.items()), key=repr)


@pytest.mark.thorough
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_any_events_leave_the_same_rows_however_they_are_divided_into_steps(bench, tables, seed):
    chance = random.Random(seed)
    at_once, commit_by_commit = tables(mode=UNLESS_GONE)
    continuous, resumed = (
        replace(at_once, table=derived_at(f"{at_once.table.uri}_{name}"))
        for name in ("continuous", "resumed")
    )
    events = []
    for commit in range(4):
        batch = [
            (chance.randrange(40), chance.randrange(4), len(events) + number, chance.random() < 0.4)
            for number in range(120)
        ]
        ingest(bench, *(event(id_, at, v, gone=gone) for id_, at, v, gone in batch))
        events += batch
        consumed(*([continuous, resumed] if commit == 0 else [continuous]))
    tables_of_all = (at_once, commit_by_commit, continuous, resumed)
    assert consumed(*tables_of_all) == [in_order(events)] * 4
