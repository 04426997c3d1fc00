"""A derivation is killed after a step that changes something, and the next run leaves each row exactly once.

A kill before a step leaves the same as one after the step before it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from chaos.derived.events import assert_counted, assert_newest, decode, rows_of, widened
from chaos.derived.kill import COMMIT, MOMENTS, REMEMBERING, interrupted, killed, lose_response
from kinesis_assets.derive.data_files import GROWTH_FOLDER
from kinesis_assets.derive.derivation import Upsert
from kinesis_assets.table.store.storage import files_in
from support.formats import FORMAT, compact

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from pyspark.sql import DataFrame

    from chaos.derived.events import EventBench

pytestmark = pytest.mark.any_format

WIDTH = 0 if FORMAT == "delta" else 2
"""The version of the columns that `with_note` returns. A growth of a Delta table has tests of its own."""


NO_ENTRY = {"open source", "write files", "verify file", "write manifests", "write manifest list"}
"""The steps after which the table and its entries are as before."""


def most(steps: Iterable[str], without: Container[str] = NO_ENTRY) -> list[Any]:
    """Return steps. Some of them are thorough, such as those at which an upsert is killed anyway."""
    return [pytest.param(each, marks=pytest.mark.thorough if each in without else ()) for each in steps]


def with_note(rows: DataFrame) -> DataFrame:
    return widened(decode(rows), WIDTH).withColumn("note", F.lit("new"))


def assert_whole(events: EventBench) -> None:
    """The next run leaves the table equal to the transformation of the source; a further one adds nothing."""
    events.appended.run()
    assert rows_of(events.appended) == events.in_source
    assert events.appended.run() == []


@pytest.mark.parametrize("step", most(["open source", "create table", "verify file", *COMMIT]))
def test_a_killed_first_run_is_repeated_exactly_once(events: EventBench, step: str) -> None:
    events.land(1, 2)
    with killed("after", step):
        events.appended.run()
    events.land(3)
    assert_whole(events)


@pytest.mark.parametrize("step", most(["add columns", *COMMIT]))
def test_a_killed_run_that_adds_a_column_is_repeated_exactly_once(events: EventBench, step: str) -> None:
    events.land(1, 2)
    events.appended.run()
    events.appended.derivation = replace(events.appended.derivation, transform=with_note)
    events.land(3)
    with killed("after", step):
        events.appended.run()
    events.land(4)
    assert_whole(events)
    assert events.appended.values("key", "note") == [(1, None), (2, None), (3, "new"), (4, "new")]


@pytest.mark.delta
@pytest.mark.parametrize(
    ("step", "nth", "copies"),
    [
        pytest.param("copy files", 1, 0, marks=pytest.mark.thorough),
        ("record copies", 1, 1),
        ("copy files", 2, 1),
        ("record copies", 2, 2),
        pytest.param("write entry", 1, 2, marks=pytest.mark.thorough),
        ("commit request", 1, 2),
        ("commit request", 2, 0),
    ],
    ids=str,
)
def test_a_killed_run_that_widens_columns_is_repeated_exactly_once(
    events: EventBench, step: str, nth: int, copies: int
) -> None:
    """The first commit has the wider files, and the second one the new row."""
    for key in (1, 2):
        events.land(key)
        events.appended.run()
    events.width = 2
    events.land(3)
    with killed("after", step, nth):
        events.appended.run(max_bytes=1)
    is_grown = step == "commit request"
    assert events.appended.rows["number"].type == (pa.int64() if is_grown else pa.int32())
    assert events.appended.values("key") == ([1, 2, 3] if (step, nth) == ("commit request", 2) else [1, 2])
    recorded = copies_of(events)
    assert len(recorded) == copies
    events.land(4)
    assert_whole(events)
    files = {file.path for file in events.appended.table.snapshot().data_files()}
    assert recorded <= files, "a file was copied twice"
    assert is_grown or copies_of(events) == set()
    assert events.appended.values("key", "number", "event") == [
        (1, 0, {"key": 1, "number": None, "note": None}),
        (2, 1, {"key": 2, "number": None, "note": None}),
        (3, 2, {"key": 3, "number": 2, "note": "x"}),
        (4, 3, {"key": 4, "number": 3, "note": "x"}),
    ]


def copies_of(events: EventBench) -> set[str]:
    """Return the paths of the copies with wider columns that are recorded."""
    table = events.appended.table
    records = [
        json.loads(table.files.open_input_file(info.path).read())
        for info in files_in(table.files, GROWTH_FOLDER)
    ]
    return {copy["path"] for record in records for file in record["files"] for copy in file["copies"]}


@pytest.mark.parametrize("name", [pytest.param("appended", marks=pytest.mark.thorough), "newest"])
def test_files_that_are_compacted_while_columns_are_widened_are_replaced_again(
    events: EventBench, name: str
) -> None:
    derived = getattr(events, name)
    for key in (1, 2):
        events.land(key)
        derived.run()
    events.width = 1
    events.land(2)
    with interrupted("before", "write entry", partial(compact, derived.table)) as happened:
        derived.run()
    assert happened()
    assert derived.rows["number"].type == pa.int64()
    expected = [(1, 0), (2, 1), (2, 2)] if name == "appended" else [(1, 0), (2, 2)]
    assert derived.values("key", "number") == expected


@pytest.mark.parametrize("step", most(COMMIT))
def test_a_killed_step_of_the_history_is_repeated_exactly_once(events: EventBench, step: str) -> None:
    for key in (1, 2, 3):
        events.land(key)
    with killed("after", step, nth=2):
        events.appended.run(max_bytes=1)
    events.land(4)
    assert_whole(events)


@pytest.mark.parametrize("step", most(COMMIT))
def test_a_killed_upsert_is_repeated_exactly_once(events: EventBench, step: str) -> None:
    events.land(1, 2)
    events.newest.run()
    events.land(2, 3)
    with killed("after", step):
        events.newest.run()
    events.land(3)
    events.newest.run()
    assert_newest(events.newest, events.in_source)


def backwards(rows: DataFrame) -> DataFrame:
    return decode(rows).withColumn("at", -F.col("number"))


@pytest.mark.parametrize("step", most(REMEMBERING, without={*NO_ENTRY, *COMMIT}))
def test_a_killed_run_that_remembers_deletions_is_repeated_exactly_once(
    events: EventBench, step: str
) -> None:
    """Each event is older than the one before it. The second one deletes its key, and was killed."""
    mode = Upsert(("key",), ("at",), delete_where="number = 1", deleted_for=timedelta(days=7))
    events.newest.derivation = replace(events.newest.derivation, transform=backwards, mode=mode)
    events.land(1, 2)
    with killed("after", step):
        events.newest.run()
    events.newest.run()
    deletions = events.newest.table.snapshot().deletions(mode.order_by)
    assert [(file.rows, file.smallest["key"], file.greatest["key"]) for file in deletions] == [(1, 2, 2)]
    events.land(1, 2, 3)
    events.newest.run()
    assert events.newest.values("key", "number") == [(1, 0), (3, 4)]
    assert events.newest.run() == []


@pytest.mark.parametrize(
    ("step", "nth"),
    [("write entry", 1), ("commit request", 1), ("write files", 1), ("commit request", 2)],
    ids=str,
)
def test_a_killed_rebuild_is_repeated_exactly_once(events: EventBench, step: str, nth: int) -> None:
    """The first commit empties the table, and the second one adds the rows that the source has."""
    events.land(1, 2)
    events.appended.run()
    events.bench.seek("TRIM_HORIZON")
    events.land(3)
    with killed("after", step, nth):
        events.appended.run()
    assert_whole(events)


@pytest.mark.parametrize("step", most(COMMIT, without={*NO_ENTRY, "write entry"}))
def test_a_killed_roll_up_is_repeated_exactly_once(events: EventBench, step: str) -> None:
    events.land(1, 2)
    events.newest.run()
    events.counted.run()
    events.land(2, 3)
    events.newest.run()
    with killed("after", step):
        events.counted.run()
    events.counted.run()
    assert_counted(events.counted, rows_of(events.newest))


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", ["appended", "newest"])
def test_a_commit_whose_response_is_lost_is_made_once(events: EventBench, moment: str, name: str) -> None:
    derived = getattr(events, name)
    events.land(1, 2)
    derived.run()
    events.land(2, 3)
    with interrupted(moment, "commit request", lose_response) as happened:
        (commit,) = derived.run()
    assert happened()
    assert commit.rows == 2
    assert derived.run() == []
