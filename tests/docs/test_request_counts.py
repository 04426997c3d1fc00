"""The requests to S3 of a run, a commit, a tick and maintenance: few, and independent of the history."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest

from benchmarks.sections.requests import (
    COMMIT,
    MAINTENANCE,
    OPERATIONS,
    QUIET_TICK,
    RUN,
    TABLES,
    TICK,
    measure,
    target,
)
from benchmarks.servers.request_log import Requests
from docs.scale_table import values

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.thorough

ABOUT = 0.02
"""delta-rs reads an entry of the log once more from time to time. All other counts are too small for this."""

FILE = Requests(get=1, head=1, put=1)
"""The requests of one data file: it is written, and verified before the commit."""


@pytest.fixture(scope="module")
def measured(environment: None) -> list[Mapping[str, Requests]]:
    """The requests of each operation, of each of `TABLES`."""
    del environment
    return measure()


def test_the_target_of_the_benchmarks_is_met(measured: list[Mapping[str, Requests]]) -> None:
    found = target(measured[-1])
    assert found.met, found.measured


@pytest.mark.parametrize("operation", OPERATIONS)
def test_requests_do_not_grow_with_the_history(
    measured: list[Mapping[str, Requests]], operation: str
) -> None:
    few, many, _ = measured
    assert TABLES[1].commits > 3 * TABLES[0].commits
    assert asdict(many[operation]) == pytest.approx(asdict(few[operation]), rel=ABOUT)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_requests_grow_with_the_tasks_and_not_with_the_shards(
    measured: list[Mapping[str, Requests]], operation: str
) -> None:
    one, _, hundred = measured
    files = TABLES[2].tasks - 1 if operation in {RUN, COMMIT} else 0
    assert asdict(hundred[operation]) == pytest.approx(asdict(one[operation] + FILE * files), rel=ABOUT)


@pytest.mark.parametrize(
    ("operation", "requests"),
    [
        (QUIET_TICK, Requests(get=57, head=4, list=1)),
        (TICK, Requests(get=57, head=4, list=1)),
        (RUN, Requests(get=185, head=12, list=7, put=5)),
        (COMMIT, Requests(get=72.65, head=7.1, list=4.05, put=3.1)),
        (MAINTENANCE, Requests(get=350, head=11, list=28, put=3)),
    ],
)
def test_an_operation_makes_these_requests(
    measured: list[Mapping[str, Requests]], operation: str, requests: Requests
) -> None:
    assert asdict(measured[0][operation]) == pytest.approx(asdict(requests), rel=ABOUT)


def test_the_page_about_scale_has_these_requests(measured: list[Mapping[str, Requests]]) -> None:
    one, *_ = measured
    page = values(shards=1, tasks=1)
    for name, operation in (("run", RUN), ("commit", COMMIT), ("tick", QUIET_TICK)):
        found = one[operation]
        assert page[f"{name}_puts"] == pytest.approx(found.put + found.list, rel=ABOUT)
        assert page[f"{name}_gets"] == pytest.approx(found.get + found.head, rel=ABOUT)
