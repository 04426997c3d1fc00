"""Tables with a key that remember which keys were deleted, and rows that do not know all of their values."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.decoders import from_json
from kinesis_assets.derive.data_files import DELETIONS_FOLDER
from kinesis_assets.derive.derivation import Upsert
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.policy import MAX_BYTES
from kinesis_assets.derive.rebuild import rebuild, take_over
from support.formats import derived_at
from support.spark_jobs import counted_jobs
from support.table_folder import files_of

if TYPE_CHECKING:
    from support.derived import DerivedBench

EVENT = "id INT, at INT, v INT, w STRING, gone BOOLEAN, _unchanged ARRAY<STRING>"
FORGETTING = Upsert(key=("id",), order_by=("at",), delete_where="gone")
REMEMBERING = replace(FORGETTING, deleted_for=timedelta(days=7))


def event(id_: int, at: int | None, v: int | None = None, **fields: object) -> bytes:
    return json.dumps({"id": id_, "at": at, "v": v, **fields}).encode()


def gone(id_: int, at: int | None) -> bytes:
    return event(id_, at, gone=True)


def decode(rows):
    return from_json(rows, EVENT).select("id", "at", "v", "w", "gone", "_unchanged")


def decode_known(rows):
    return decode(rows).drop("_unchanged")


@pytest.fixture
def remembering(derived):
    """A table that remembers deletions."""
    derived.derivation = replace(derived.derivation, transform=decode_known, mode=REMEMBERING)
    return derived


@pytest.fixture
def consume(bench, remembering):
    """Ingest events and consume them in one step, and return the ids and values of the table."""

    def consume(*events: bytes, **changes):
        bench.put(*events)
        assert not bench.run().errors
        remembering.run(**changes)
        return remembering.values("id", "v")

    return consume


def deletions(table: DerivedBench) -> list[tuple[int, ...]]:
    """Return the number of rows of the files with remembered deletions, and the bounds of their ids."""
    found = table.table.snapshot().newest.deletions
    files = [] if found is None else found.files
    return [(file.rows, file.smallest["id"], file.greatest["id"]) for file in files]


@pytest.mark.thorough
def test_a_row_that_is_older_than_a_deletion_does_not_insert_its_key_again(consume):
    consume(event(1, 1, 10), event(2, 1, 20))
    assert consume(gone(1, 5)) == [(2, 20)]
    assert consume(event(1, 3, 11), event(2, 3, 21)) == [(2, 21)]
    assert consume(event(1, 4, 12)) == [(2, 21)]


@pytest.mark.thorough
def test_a_row_that_is_newer_or_equal_inserts_a_deleted_key_again(consume):
    consume(gone(1, 5), gone(2, 5), gone(3, None))
    assert consume(event(1, 6, 10), event(2, 5, 20), event(3, None, 30)) == [(1, 10), (2, 20), (3, 30)]
    assert consume(event(1, 5, 11), event(2, 4, 21)) == [(1, 10), (2, 20), (3, 30)]


@pytest.mark.thorough
def test_a_row_stays_that_is_equal_to_the_deletion_after_which_it_was_inserted(consume, remembering):
    """Compared by their values, the deletion would be greater: the JSON text of a map is less than none."""

    def with_map(rows):
        return from_json(rows, f"{EVENT}, m MAP<STRING, INT>").select(
            "id", "at", "v", "m", "gone", "_unchanged"
        )

    remembering.derivation = replace(remembering.derivation, transform=with_map)
    consume(gone(1, 5))
    consume(event(1, 5, 10, m={"a": 1}))
    assert consume(event(1, 4, 11, _unchanged=["m"])) == [(1, 10)]
    consume(event(1, 5, 12, _unchanged=["m"]))
    assert remembering.values("v", "m") == [(12, [("a", 1)])]


@pytest.mark.thorough
def test_a_deletion_of_a_key_that_the_table_never_had_is_remembered(consume, remembering):
    assert consume(gone(1, 5), gone(7, 5)) == []
    assert deletions(remembering) == [(2, 1, 7)]
    assert consume(event(1, 4, 10)) == []


@pytest.mark.thorough
def test_the_newest_of_several_deletions_decides(consume, remembering):
    consume(gone(1, 5), gone(1, 3))
    consume(gone(1, 4), gone(2, 1))
    assert deletions(remembering) == [(1, 1, 1), (1, 2, 2)]
    assert consume(event(1, 4, 10), event(2, 1, 20)) == [(2, 20)]
    consume(gone(1, 8))
    assert consume(event(1, 7, 11)) == [(2, 20)]


@pytest.mark.thorough
def test_a_deletion_that_is_older_than_the_row_of_the_table_changes_nothing(consume, remembering):
    consume(event(1, 5, 10))
    assert consume(gone(1, 4)) == [(1, 10)]
    assert deletions(remembering) == []


@pytest.mark.thorough
def test_within_a_step_a_deletion_is_remembered_too(consume):
    assert consume(gone(1, 5), event(1, 4, 10), event(2, 1, 20), gone(2, 1), event(2, 1, 21)) == [(2, 21)]


def test_readers_of_the_table_see_no_remembered_deletions(consume, remembering):
    consume(event(1, 1, 10), gone(2, 5))
    assert remembering.values("id") == [1]
    assert remembering.rows.column_names == ["id", "at", "v", "w", "gone", "_batch_id"]
    assert len(files_of(remembering.table, f"{DELETIONS_FOLDER}/*")) == 1


def test_deletions_are_remembered_from_the_commit_that_has_the_setting_on_until_one_without_it(
    consume, remembering
):
    consume(event(1, 1, 10), gone(2, 5), mode=FORGETTING)
    assert consume(event(2, 4, 20)) == [(1, 10), (2, 20)]
    assert consume(gone(2, 5)) == [(1, 10)]
    assert consume(event(3, 1, 30), mode=FORGETTING) == [(1, 10), (3, 30)]
    assert deletions(remembering) == []
    assert consume(event(2, 4, 21)) == [(1, 10), (2, 21), (3, 30)]


def test_deletions_are_forgotten_if_they_can_no_longer_be_compared(consume, remembering):
    consume(gone(1, 5))
    by_value = replace(REMEMBERING, order_by=("v",))
    assert consume(event(1, 4, 10), mode=by_value) == [(1, 10)]
    assert deletions(remembering) == []


def test_a_rebuilt_table_remembers_what_its_source_has(consume, bench, remembering):
    consume(gone(1, 5))
    source, definition = open_source(bench.table.uri), remembering.derivation.definition
    rebuild(remembering.table, source, definition, (), by="ann", apply=True)
    assert deletions(remembering) == []
    assert consume(event(1, 4, 10)) == []
    assert deletions(remembering) == [(1, 1, 1)]


def test_a_table_that_is_taken_over_remembers_deletions(consume, remembering):
    consume(gone(1, 5), owner="old")
    take_over(
        remembering.table, replace(remembering.derivation, owner="new").definition, by="ann", apply=True
    )
    assert consume(event(1, 4, 10), owner="new") == []


def test_a_table_whose_order_was_lost_remembers_deletions_by_all_columns(consume, remembering):
    def ungrouped(rows):
        return (
            decode_known(rows)
            .groupBy("id", "at", "v")
            .agg(F.max("w").alias("w"), F.max("gone").alias("gone"))
        )

    remembering.derivation = replace(remembering.derivation, transform=ungrouped)
    consume(event(1, 5, 2, gone=True))
    assert consume(event(1, 5, 1), event(1, 4, 9)) == []
    assert consume(event(1, 5, 3)) == [(1, 3)]


@pytest.mark.thorough
def test_values_that_a_row_does_not_know_are_those_of_the_row_that_it_replaces(consume, remembering):
    remembering.derivation = replace(remembering.derivation, transform=decode)
    unknown = {"_unchanged": ["w"]}
    consume(
        event(1, 1, 10, w="a"), event(2, 1, 20, w="b"), event(3, 1, 30, **unknown), event(4, 1, 40, w="d")
    )
    assert "_unchanged" not in remembering.rows.column_names
    consume(
        event(1, 2, 11, **unknown), event(2, 2, 21), event(4, 2, None, w="e", _unchanged=["v", "no column"])
    )
    found = [(1, 11, "a"), (2, 21, None), (3, 30, None), (4, 40, "e")]
    assert remembering.values("id", "v", "w") == found
    consume(gone(1, 3), event(1, 4, 12, **unknown), event(2, 1, 22, **unknown), event(3, 2, 31, w="c"))
    assert remembering.values("id", "v", "w") == [(1, 12, None), (2, 21, None), (3, 31, "c"), (4, 40, "e")]
    consume(event(None, 1, 50, **unknown), event(3, 3, 32, _unchanged=[]))
    assert remembering.values("id", "v", "w")[2:] == [(3, 32, None), (4, 40, "e"), (None, 50, None)]


def jobs_of(spark, table: DerivedBench, **changes: object) -> int:
    """Return the number of Spark jobs of a run."""
    group = f"jobs of {table.table.snapshot().version} {sorted(changes)}"
    with counted_jobs(spark.sparkContext, group) as jobs:
        table.run(**changes)
        return jobs()


@pytest.mark.thorough
def test_only_what_is_remembered_or_unknown_takes_spark_jobs(spark, bench, consume, remembering):
    consume(event(1, 1, 10), event(2, 1, 20))
    jobs = []
    for number, changes in enumerate(
        [{"mode": FORGETTING}, {"mode": FORGETTING, "transform": decode}, {}, {}]
    ):
        bench.put(event(1, 2 + number, 11), gone(3, 1) if number == 3 else event(3, 1, 30))
        assert not bench.run().errors
        jobs.append(jobs_of(spark, remembering, **changes))
    forgetting, without_unknown, without_deletions, with_deletions = jobs
    assert forgetting == without_deletions < with_deletions
    assert forgetting < without_unknown


def in_order(events, *, remembers):
    """Return the rows that stay if events are taken one after the other."""
    rows: dict[int, tuple[int, bool, int, str | None]] = {}
    for id_, at, is_gone, v, w in events:
        before = rows.get(id_)
        if before is not None and before[0] > at:
            continue
        if is_gone and not remembers:
            rows.pop(id_, None)
        elif is_gone:
            rows[id_] = (at, True, v, None)
        else:
            rows[id_] = (at, False, v, (before and before[3]) if w is None else w)
    return sorted(((id_, v, w) for id_, (_, is_gone, v, w) in rows.items() if not is_gone), key=repr)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(
    "mode",
    [REMEMBERING, pytest.param(FORGETTING, marks=pytest.mark.thorough)],
    ids=["remembering", "forgetting"],
)
def test_any_events_leave_the_same_rows_however_they_are_divided_into_steps(bench, derived, mode):
    chance = random.Random(7)
    at_once, commit_by_commit = (
        replace(
            derived,
            table=derived_at(f"{derived.table.uri}_{size}"),
            derivation=replace(derived.derivation, transform=decode, mode=mode, max_bytes=size),
        )
        for size in (MAX_BYTES, 1)
    )
    events = []
    for commit in range(4):
        batch = [
            (
                chance.randrange(40),
                chance.randrange(6),
                chance.random() < 0.4,
                number,
                chance.choice([None, str(number)]),
            )
            for number in range(commit * 150, commit * 150 + 150)
        ]
        bench.put(
            *(
                event(id_, at, v, gone=is_gone, w=w, _unchanged=["w"] if w is None else None)
                for id_, at, is_gone, v, w in batch
            )
        )
        assert not bench.run().errors
        events += batch
        commit_by_commit.run()
    at_once.run()
    expected = in_order(events, remembers=mode is REMEMBERING)
    assert [each.values("id", "v", "w") for each in (at_once, commit_by_commit)] == [expected] * 2
