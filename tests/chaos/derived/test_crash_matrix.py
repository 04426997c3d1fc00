"""A derivation is killed after a step that changes something, and the next run leaves each row exactly once.

A kill before a step leaves the same as one after the step before it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from chaos.derived.events import assert_counted, assert_newest, decode, rows_of
from chaos.derived.kill import MOMENTS, interrupted, killed, lose_response

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from chaos.derived.events import EventBench

COMMIT = ["write files", "write entry", "commit request"]


def with_note(rows: DataFrame) -> DataFrame:
    return decode(rows).withColumn("note", F.lit("new"))


def assert_whole(events: EventBench) -> None:
    """The next run leaves the table equal to the transformation of the source; a further one adds nothing."""
    events.appended.run()
    assert rows_of(events.appended) == events.in_source
    assert events.appended.run() == []


@pytest.mark.parametrize("step", ["open source", "create table", "verify file", *COMMIT])
def test_a_killed_first_run_is_repeated_exactly_once(events: EventBench, step: str) -> None:
    events.land(1, 2)
    with killed("after", step):
        events.appended.run()
    events.land(3)
    assert_whole(events)


@pytest.mark.parametrize("step", ["add columns", *COMMIT])
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


@pytest.mark.parametrize("step", COMMIT)
def test_a_killed_step_of_the_history_is_repeated_exactly_once(events: EventBench, step: str) -> None:
    for key in (1, 2, 3):
        events.land(key)
    with killed("after", step, nth=2):
        events.appended.run(max_bytes=1)
    events.land(4)
    assert_whole(events)


@pytest.mark.parametrize("step", COMMIT)
def test_a_killed_upsert_is_repeated_exactly_once(events: EventBench, step: str) -> None:
    events.land(1, 2)
    events.newest.run()
    events.land(2, 3)
    with killed("after", step):
        events.newest.run()
    events.land(3)
    events.newest.run()
    assert_newest(events.newest, events.in_source)


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


@pytest.mark.parametrize("step", COMMIT)
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
