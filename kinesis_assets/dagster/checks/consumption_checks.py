"""The checks of how a derived table has consumed its source."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.dagster.checks.result import CheckResult, counted, duration
from kinesis_assets.derive.policy import Deletion
from kinesis_assets.errors import PositionsUnreadable

if TYPE_CHECKING:
    from kinesis_assets.dagster.settings.derived_check_settings import (
        DerivedContinuityCheck,
        DerivedDataLossCheck,
        DerivedLagCheck,
    )
    from kinesis_assets.derive.backlog import Backlog
    from kinesis_assets.derive.derived_table import DerivedCommit, RecordFiles

_MAX_COMMITS = 200
"""The maximum number of commits that are examined in one go, from the newest one."""

_MAX_LOSSES = 20
"""The number of losses that are remembered."""

_LOST = frozenset({Deletion.EXPIRED, Deletion.INCOMPLETE, Deletion.FORGOTTEN})


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
            "lag (s)": round(age, 1),
            **({} if backlog.commits is None else {"unconsumed commits": backlog.commits}),
        },
    )


def check_consumption_continuity(
    check: DerivedContinuityCheck, problem: str | None, backlog: Backlog | None, restarts: str | None = None
) -> CheckResult:
    """Check that a derived table can continue where it ended in its source.

    Args:
        check: The check.
        problem: Why it cannot; None if no reason was found.
        backlog: What the table has not consumed; None if that is unknown.
        restarts: Why its next run starts it again, as on_deleted: rebuild allows; None if it does not.
    """
    if problem is not None:
        description = problem
    elif restarts is not None:
        description = f"the next run starts the table again, and loses nothing: {restarts}"
    elif backlog is not None and backlog.has_more:
        description = "no commit is missing among the newest ones of the source; the table is far behind them"
    else:
        description = "the source has all commits that come after the table's position"
    return CheckResult("continuity", problem is None, check.severity, description)


class Loss(msgspec.Struct, frozen=True, array_like=True):
    """What one commit of a derived table gave up.

    Attributes:
        at: The time of the commit, in seconds since the epoch.
        rows: Number of rows of the source, as far as it is known.
        sentence: What was given up.
    """

    at: float
    rows: int
    sentence: str


class Losses(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a derived table gave up.

    Attributes:
        through: Id of the last commit that was examined; None before the first.
        newest: The newest losses, newest first.
    """

    through: int | None = None
    newest: tuple[Loss, ...] = ()


def losses_of(records: RecordFiles, newest: DerivedCommit, before: Losses) -> Losses:
    """Add what the commits since the last time gave up. Rows that were consumed before are not given up.

    Args:
        records: The records of the table's commits.
        newest: The newest commit.
        before: What was found so far.
    """
    found = []
    with suppress(PositionsUnreadable):  # no run needs the earlier records
        for commit in islice(records.back_from(newest), _MAX_COMMITS):
            if commit.commit_id == before.through:
                break
            lost = [each for each in commit.given_up if each.deletion in _LOST]
            if lost:
                rows = sum(each.rows or 0 for each in lost)
                found.append(Loss(commit.at.timestamp(), rows, "; ".join(map(str, lost))))
    return Losses(newest.commit_id, (*found, *before.newest)[:_MAX_LOSSES])


def check_no_derived_data_loss(check: DerivedDataLossCheck, losses: Losses) -> CheckResult:
    """Check that a derived table gave up no rows of its source.

    Args:
        check: From when on losses count.
        losses: What the table gave up.
    """
    counting = [each for each in losses.newest if check.since is None or each.at >= check.since.timestamp()]
    if counting:
        newest = counting[0]
        description = (
            f"{counted(len(counting), 'commit')} gave up rows of the source, as on_deleted allows, the last "
            f"at {datetime.fromtimestamp(newest.at, UTC):%Y-%m-%dT%H:%M:%SZ}: {newest.sentence}. Keep rows "
            "longer (retention_days, keep_unconsumed_days) or consume them sooner; to accept the loss, set "
            "checks.no_accepted_data_loss.since to a later time"
        )
    else:
        description = "no rows of the source were given up"
    facts = {"commits": len(counting), "rows given up": sum(each.rows for each in counting)}
    return CheckResult("no_accepted_data_loss", not counting, check.severity, description, facts)


def _what(backlog: Backlog) -> str:
    """Return what is not consumed, with its verb."""
    if backlog.commits is None:
        return "rows that the source had when the table started are"
    if backlog.has_more:
        return f"{backlog.commits} commits of the source or more are"
    return f"{counted(backlog.commits, 'commit')} of the source {'is' if backlog.commits == 1 else 'are'}"
