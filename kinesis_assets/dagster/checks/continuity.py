"""The check of continuity: each commit starts exactly where the previous one ended.

The commits are checked once, oldest first, and the last one is remembered. So a tick reads only new commits.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.dagster.checks.result import CheckResult, counted, worst
from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.operations.doctor.chain import chain_breaks
from kinesis_assets.table.commit_ids import time_of_id
from kinesis_assets.table.maintenance.pruning import CHAIN_KEPT, CHAIN_NEEDED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kinesis_assets.dagster.settings.check_settings import ContinuityCheck
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.table import PositionedTable

MAX_COMMITS = 200
"""The maximum number of commits that a step checks. The first step starts this many commits ago."""

MAX_COMMITS_BACK = 2_000
"""How many commits a step goes back at most, because a tick must end within a minute. One that was
further behind continues there."""

_CLOCKS_DIFFER = 86_400.0
"""Seconds by which the clocks of the machines that make commits may differ."""

MAX_BREAKS = 100
"""The maximum number of breaks that are remembered."""


class Break(msgspec.Struct, frozen=True, array_like=True):
    """A commit that does not continue the previous one.

    Attributes:
        commit_id: Id of the commit.
        shard_id: The shard; None for the whole commit.
        sentence: What is wrong.
    """

    commit_id: int
    shard_id: str | None
    sentence: str

    @property
    def at(self) -> datetime:
        """The time of the commit."""
        return datetime.fromtimestamp(time_of_id(self.commit_id), UTC)


class ContinuityProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """The progress of the check through the commits.

    Attributes:
        through: Id of the newest commit that was checked, inclusive; None before the first.
        checked: The number of commits that were checked.
        left: The number of commits that are still to be checked.
        breaks: The breaks that were found, of the commits that the chain still has.
    """

    through: int | None = None
    checked: int = 0
    left: int = 0
    breaks: tuple[Break, ...] = ()


def verify_new_commits(
    table: PositionedTable,
    newest: StreamPositions,
    done: ContinuityProgress,
    now: datetime,
    *,
    max_commits: int = MAX_COMMITS,
    max_commits_back: int = MAX_COMMITS_BACK,
) -> ContinuityProgress:
    """Check the commits since the last step, oldest first, up to a number of them.

    Args:
        table: The table.
        newest: The positions of its newest version.
        done: The progress so far.
        now: The time.
        max_commits: The maximum number of commits to check.
        max_commits_back: How many commits to go back at most. The commits before them are not checked.

    Raises:
        TableUnreachable: A file of the chain cannot be read at present.
    """
    kept = tuple(each for each in done.breaks if now - each.at < CHAIN_KEPT)
    if done.through == newest.commit_id:
        return msgspec.structs.replace(done, breaks=kept, left=0)
    found: list[Break] = []
    commits = [newest.commit_id]
    is_far = False
    complete = False  # whether the chain was read down to the last commit that was checked
    try:
        for commit in table.chain.commits_before(newest):
            commits.append(commit.commit_id)
            complete = commit.commit_id == done.through
            is_far = len(commits) > max_commits_back
            if complete or is_far or _is_enough(commits, done.through, max_commits):
                break
    except PositionsUnreadable as error:
        found += _missing_file(error, commits[-1], now)
    follows = complete or is_far or done.through is None
    if not follows and not found and done.through is not None and _is_recent(done.through, now):
        found.append(
            Break(
                newest.commit_id,
                None,
                f"it does not follow commit {done.through}, which was the newest one before: the table was "
                "restored or replaced, or another commit overwrote its version",
            )
        )
    oldest_first = commits[::-1]
    step = oldest_first[: max_commits + 1]
    found += _breaks(table, step, now)
    return ContinuityProgress(
        through=step[-1],
        checked=done.checked + len(step) - 1,
        left=len(oldest_first) - len(step),
        breaks=tuple(dict.fromkeys((*kept, *found)))[-MAX_BREAKS:],
    )


def check_continuity(check: ContinuityCheck, progress: ContinuityProgress) -> CheckResult:
    """Check that no commit breaks the chain.

    Args:
        check: From when on commits count.
        progress: What was found.
    """
    breaks = [each for each in progress.breaks if check.since is None or each.at >= check.since]
    if breaks:
        first = breaks[0]
        shard = "" if first.shard_id is None else f" of {first.shard_id}"
        description = (
            f"{counted(len(breaks), 'break')} in the chain of commits, the first{shard} at "
            f"{first.at:%Y-%m-%dT%H:%M:%SZ}: {first.sentence}. Examine the table with `kinesis-assets doctor "
            "--rows`, then set checks.continuity.since to a later time"
        )
    elif progress.left:
        description = f"no break so far, and {counted(progress.left, 'commit')} are still to be checked"
    else:
        description = "each commit continues the previous one"
    rows = [
        {
            "commit": str(each.commit_id),
            "at": f"{each.at:%Y-%m-%dT%H:%M:%SZ}",
            "shard": each.shard_id or "all",
            "break": each.sentence,
        }
        for each in breaks
    ]
    return CheckResult(
        "continuity",
        not breaks,
        check.severity,
        description,
        {
            "commits checked": progress.checked,
            "commits left": progress.left,
            "breaks": len(breaks),
            **worst(rows, "broken commits"),
        },
    )


def _is_enough(newest_first: Sequence[int], through: int | None, max_commits: int) -> bool:
    """Return whether a commit that was checked cannot be among the older ones, or is not searched for."""
    if through is None:
        return len(newest_first) > max_commits
    # The ids start with the time of the machines that made the commits.
    return time_of_id(newest_first[-1]) < time_of_id(through) - _CLOCKS_DIFFER


def _breaks(table: PositionedTable, oldest_first: Sequence[int], now: datetime) -> Iterator[Break]:
    """Compare each commit with the one before it. The first one is only compared with."""
    for before_id, commit_id in pairwise(oldest_first):
        try:
            before, after = table.chain.positions_at(before_id), table.chain.positions_at(commit_id)
            if before.shards.keys() != after.shards.keys():  # some may have moved to the archive
                before, after = (
                    msgspec.structs.replace(each, shards={**table.chain.archived(each), **each.shards})
                    for each in (before, after)
                )
        except PositionsUnreadable as error:
            yield from _missing_file(error, commit_id, now)
            continue
        if after.previous != before_id:
            yield Break(commit_id, None, f"it follows commit {after.previous}, not {before_id}")
        for shard_id, sentence in chain_breaks(before, after):
            yield Break(commit_id, shard_id, sentence)


def _missing_file(error: PositionsUnreadable, commit_id: int, now: datetime) -> Iterator[Break]:
    """Report a file that cannot be read, unless maintenance can have deleted it."""
    if _is_recent(commit_id, now):
        yield Break(commit_id, None, str(error))


def _is_recent(commit_id: int, now: datetime) -> bool:
    """Return whether the file of a commit is too recent to have been deleted by maintenance."""
    return now - datetime.fromtimestamp(time_of_id(commit_id), UTC) < CHAIN_NEEDED
