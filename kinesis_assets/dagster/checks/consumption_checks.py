"""The checks of how a derived table has consumed its source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.dagster.checks.result import CheckResult, counted, duration

if TYPE_CHECKING:
    from kinesis_assets.dagster.settings.derived_check_settings import DerivedContinuityCheck, DerivedLagCheck
    from kinesis_assets.derive.backlog import Backlog


def check_consumption_lag(check: DerivedLagCheck, backlog: Backlog, now: float) -> CheckResult:
    """Check that a derived table is not late.

    Args:
        check: The bound.
        backlog: What the table has not consumed.
        now: The time, in seconds since the epoch.
    """
    age = 0.0 if backlog.since is None else max(0.0, now - backlog.since)
    passed = age <= check.max_seconds
    if backlog.since is None:
        description = "all rows of the source are consumed"
    else:
        description = f"{_what(backlog)} not consumed, and may have waited for {duration(age)}"
    if not passed:
        description += (
            f", more than {duration(check.max_seconds)}. See whether runs of the table fail, or are not "
            "requested"
        )
    return CheckResult(
        "lag",
        passed,
        check.severity,
        description,
        {
            "lag_seconds": round(age, 1),
            **({} if backlog.commits is None else {"unconsumed_commits": backlog.commits}),
        },
    )


def check_consumption_continuity(
    check: DerivedContinuityCheck, problem: str | None, backlog: Backlog | None
) -> CheckResult:
    """Check that a derived table can continue where it ended in its source.

    Args:
        check: The check.
        problem: Why it cannot; None if no reason was found.
        backlog: What the table has not consumed; None if that is unknown.
    """
    if problem is not None:
        description = problem
    elif backlog is not None and backlog.has_more:
        description = "no commit is missing among the newest ones of the source; the table is far behind them"
    else:
        description = "the source has all commits that come after the table's position"
    return CheckResult("continuity", problem is None, check.severity, description)


def _what(backlog: Backlog) -> str:
    """Return what is not consumed, with its verb."""
    if backlog.commits is None:
        return "rows that the source had when the table started are"
    if backlog.has_more:
        return f"{backlog.commits} commits of the source or more are"
    return f"{counted(backlog.commits, 'commit')} of the source {'is' if backlog.commits == 1 else 'are'}"
