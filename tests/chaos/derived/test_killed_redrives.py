"""A redrive, or the step of a table of errors that consumes it, is killed at a write, and repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chaos.derived.kill import killed

if TYPE_CHECKING:
    from chaos.derived.events import EventBench

pytestmark = pytest.mark.any_format

REASON = "json: Expected `int | null`, got `str` - at `$.remainder_4_0`"
STILL_BAD = [(4, REASON), (8, REASON)]


@pytest.fixture
def corrected(events: EventBench) -> EventBench:
    """Events of which those with even keys were separated, and only those with multiples of 4 are bad now."""
    events.land(1, 2, 4)
    events.typed.run()
    events.errors.run()
    events.land(6, 8)
    events.typed.run()
    events.modulus = 4
    return events


def tables(events: EventBench) -> tuple[list[int], list[tuple[int, str]]]:
    """Return the keys of the rows, and those of the bad records with their reasons."""
    bad = events.errors.rows.to_pylist()
    keys = [(int(row["data"].split(b",")[0].split(b":")[1]), row["error"]) for row in bad]
    return events.typed.values("key"), sorted(keys)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("step", "nth"),
    [("write redriven rows", 1), ("write bad records", 2), ("write entry", 1), ("commit request", 1)],
    ids=str,
)
def test_a_killed_redrive_is_repeated_exactly_once(corrected: EventBench, step: str, nth: int) -> None:
    with killed("after", step, nth):
        corrected.redrive()
    corrected.redrive()
    corrected.errors.run()
    assert tables(corrected) == ([1, 2, 6], STILL_BAD)
    assert (corrected.redrive().commit, corrected.errors.run()) == (None, [])


@pytest.mark.parametrize("step", [pytest.param("write entry", marks=pytest.mark.thorough), "commit request"])
def test_a_killed_step_of_the_table_of_errors_is_repeated_exactly_once(
    corrected: EventBench, step: str
) -> None:
    corrected.redrive()
    with killed("after", step, nth=2):  # the first step takes over what was separated before
        corrected.errors.run()
    assert corrected.redrive().commit is None
    corrected.errors.run()
    assert tables(corrected) == ([1, 2, 6], STILL_BAD)
    assert corrected.errors.run() == []
