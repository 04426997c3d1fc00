"""The checks of a raw table's commits: that each continues the previous one, and that none gave up records.

The commits are checked once, oldest first, and the last one is remembered. So a tick reads only new commits.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.dagster.checks.results import CheckResult, counted, duration, worst
from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.operations.doctor.history import chain_breaks
from kinesis_assets.table.commit_ids import time_of_id
from kinesis_assets.table.maintenance.pruning import CHAIN_KEPT, CHAIN_NEEDED
from kinesis_assets.table.positions.amendments import unfilled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kinesis_assets.dagster.settings.check_settings import ContinuityCheck, NoAcceptedDataLossCheck
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import ShardPosition, StreamPositions
    from kinesis_assets.table.positions.positions_chain import PositionsChain
    from kinesis_assets.table.raw_table import PositionedTable


MAX_COMMITS = 200
"""The maximum number of commits that a step checks. The first step starts this many commits ago."""

MAX_COMMITS_BACK = 2_000
"""How many commits a step goes back at most, because a tick must end within a minute. One that was
further behind continues there."""

_CLOCKS_DIFFER = 86_400.0
"""Seconds by which the clocks of the machines that make commits may differ."""

MAX_BREAKS = 100


class Break(msgspec.Struct, frozen=True, array_like=True):
    """A commit that does not continue the previous one.

    Attributes:
        shard_id: The shard; None for the whole commit.
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
        max_commits_back: How many commits to go back at most. The commits before them are not checked.
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
    """Check that no commit breaks the chain."""
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
    counts = {"commits checked": progress.checked, "commits left": progress.left, "breaks": len(breaks)}
    facts = {**counts, **worst(rows, "broken commits")}
    return CheckResult("continuity", not breaks, check.severity, description, facts)


def _is_enough(newest_first: Sequence[int], through: int | None, max_commits: int) -> bool:
    """Return whether older commits need not be read to find the last one that was checked."""
    if through is None:
        return len(newest_first) > max_commits
    # The ids start with the time of the machines that made the commits.
    return time_of_id(newest_first[-1]) < time_of_id(through) - _CLOCKS_DIFFER


def _breaks(table: PositionedTable, oldest_first: Sequence[int], now: datetime) -> Iterator[Break]:
    """Compare each commit but the first with the one before it."""
    for before_id, commit_id in pairwise(oldest_first):
        try:
            before, after = table.chain.positions_at(before_id), table.chain.positions_at(commit_id)
            if before.shards.keys() != after.shards.keys():  # some may have moved to the archive
                before, after = map(table.chain.with_all_archived, (before, after))
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


STEP_LIMIT = timedelta(hours=1)
"""A catch-up that has committed nothing for this long was interrupted: each of its steps reads for ten
minutes."""

Gaps = dict[str, "tuple[Gap, ...]"]


def recorded_gaps(positions: StreamPositions, archived: Mapping[str, Iterable[Gap]]) -> Gaps:
    """Return the gaps of all shards.

    Args:
        archived: The gaps of shards that are in the archive; those of others are ignored.
    """
    found = {shard_id: shard.gaps for shard_id, shard in positions.shards.items() if shard.gaps}
    return found | {
        shard_id: tuple(gaps) for shard_id, gaps in archived.items() if shard_id not in positions.shards
    }


def gaps_of_table(
    chain: PositionsChain, positions: StreamPositions, known: Gaps, archive: int | None
) -> tuple[Gaps, int | None]:
    """Return the gaps of all shards, and the archive's newest segment. Reads the archive if that has changed.

    `known` and `archive` are what this returned before; at the first time, `archive` is None.
    """
    newest = chain.newest_segment(positions)
    archived = known
    if newest != archive:
        archived = known | {key: shard.gaps for key, shard in chain.archived(positions).items() if shard.gaps}
    return recorded_gaps(positions, archived), newest


def check_no_accepted_data_loss(
    check: NoAcceptedDataLossCheck,
    positions: StreamPositions,
    gaps: Gaps,
    amendment: Amendment | None,
    now: datetime,
) -> CheckResult:
    """Check that no gap is recorded that a replay has not filled, or that a catch-up is about to fill."""
    lost, waiting = _deleted_streams(positions), []
    committed = [] if amendment is None else [amendment.at]
    for shard_id, of_shard in gaps.items():
        shard = positions.shards.get(shard_id)
        for gap, part in unfilled(amendment, shard_id, of_shard).items():
            if shard is not None and gap.to_fill and _is_available(shard, part, now):
                waiting.append((gap.until, shard_id, str(part)))
                committed += [seek.at for seek in shard.seeks]
            else:
                lost.append((gap.until, shard_id, str(part)))
    lost = sorted((each for each in lost if _counts(check, each[0])), reverse=True)
    waiting = sorted((each for each in waiting if _counts(check, each[0])), reverse=True)
    goes_on = now - max(committed, default=now) < STEP_LIMIT
    sentences = []
    if lost:
        until, place, sentence = lost[0]
        sentences.append(
            f"{counted(len(lost), 'gap')} in which records may be missing, the newest in {place} until "
            f"{until:%Y-%m-%dT%H:%M:%SZ}: {sentence}. Replay what the stream still has. If the gap "
            "stays, its records may have expired: to accept that, set "
            "checks.no_accepted_data_loss.since to a later time"
        )
    if waiting:
        ranges = counted(len(waiting), "range")
        if goes_on:
            sentences.append(f"{ranges} that a catch-up has skipped are being filled")
        else:
            sentences.append(
                f"{ranges} that a catch-up has skipped are not filled, and it has committed nothing for more "
                f"than {duration(STEP_LIMIT.total_seconds())}. Run the catch-up again: it continues where it "
                "ended"
            )
    rows = [
        {"shard": place, "until": f"{until:%Y-%m-%dT%H:%M:%SZ}", "gap": sentence}
        for until, place, sentence in (*lost, *waiting)
    ]
    passed = not lost and (goes_on or not waiting)
    description = "; ".join(sentences) or "no records were given up"
    facts = {"gaps": len(lost), "ranges_to_fill": len(waiting), **worst(rows)}
    return CheckResult("no_accepted_data_loss", passed, check.severity, description, facts)


def _is_available(shard: ShardPosition, part: Gap, now: datetime) -> bool:
    """Whether no record of the unfilled part of a gap can have expired."""
    if shard.retention_hours is None or part.since is None:
        return False
    return part.since + timedelta(hours=shard.retention_hours) > now


def _counts(check: NoAcceptedDataLossCheck, until: datetime) -> bool:
    return check.since is None or until >= check.since


def _deleted_streams(positions: StreamPositions) -> list[tuple[datetime, str, str]]:
    """Return what was lost of deleted streams of the same name: unread shards, and recorded gaps."""
    found = []
    streams = [*(each.identity for each in positions.predecessors), positions.identity]
    for each, successor in zip(positions.predecessors, streams[1:], strict=True):
        for shard_id, gaps in each.gaps.items():
            found += [(gap.until, f"{shard_id} of a deleted stream", str(gap)) for gap in gaps]
        if each.unfinished:
            unread = counted(len(each.unfinished), "shard")
            sentence = f"the stream created at {each.identity.created:%Y-%m-%dT%H:%M:%SZ} was deleted before "
            found.append((successor.created, "a deleted stream", f"{sentence}{unread} were read to the end"))
    return found
