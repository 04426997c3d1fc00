"""The checks of what a derived table has consumed of its source."""

from __future__ import annotations

import pytest

from kinesis_assets.dagster.checks.derived_evaluation import (
    check_consumption_continuity,
    check_consumption_lag,
)
from kinesis_assets.dagster.settings.check_settings import DerivedContinuityCheck, DerivedLagCheck
from kinesis_assets.derive.new_rows import Backlog
from support.mentions import assert_mentions

NOW = 1_790_000_000.0
LAG = DerivedLagCheck(max_seconds=60)
CONTINUITY = DerivedContinuityCheck()


@pytest.mark.parametrize(("age", "passed"), [(0, True), (60, True), (60.1, False)])
def test_the_age_of_the_oldest_commit_is_bounded(age, passed):
    result = check_consumption_lag(LAG, Backlog(NOW - age, 3), NOW)
    assert (result.passed, result.severity) == (passed, "WARN")
    assert result.metadata == {"lag (s)": age, "unconsumed commits": 3}


def test_a_table_that_has_consumed_everything_has_no_lag():
    result = check_consumption_lag(LAG, Backlog(None), NOW)
    assert result.passed
    assert "all rows" in result.description
    assert result.metadata == {"lag (s)": 0, "unconsumed commits": 0}


def test_a_commit_of_a_clock_that_is_ahead_is_not_late():
    result = check_consumption_lag(LAG, Backlog(NOW + 500, 1), NOW)
    assert (result.passed, result.metadata["lag (s)"]) == (True, 0)


def test_a_failure_says_how_long_rows_wait_and_what_to_do():
    result = check_consumption_lag(LAG, Backlog(NOW - 600, 1), NOW)
    assert_mentions(result.description, "1 commit ", "10 min", "60 s", "fail", "requested")


def test_a_number_that_is_not_known_is_not_reported():
    result = check_consumption_lag(LAG, Backlog(NOW - 600, None), NOW)
    assert (result.passed, result.metadata) == (False, {"lag (s)": 600})
    far = check_consumption_lag(LAG, Backlog(NOW - 600, 200, has_more=True), NOW)
    assert_mentions(far.description, "200 commits", "or more")


def test_a_problem_breaks_the_continuity():
    result = check_consumption_continuity(CONTINUITY, "the source was restored", None)
    assert (result.passed, result.severity) == (False, "ERROR")
    assert result.description == "the source was restored"


@pytest.mark.parametrize("backlog", [None, Backlog(None), Backlog(NOW, 200, has_more=True)])
def test_without_a_problem_the_continuity_passes(backlog):
    assert check_consumption_continuity(CONTINUITY, None, backlog).passed
