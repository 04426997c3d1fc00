"""The check that no records were given up, from the gaps that the table records."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from kinesis_assets.dagster.checks.result import CheckResult, counted, duration, worst
from kinesis_assets.table.positions.amendments import unfilled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from kinesis_assets.dagster.settings.check_settings import NoAcceptedDataLossCheck
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import ShardPosition, StreamPositions
    from kinesis_assets.table.positions.positions_chain import PositionsChain

STEP_LIMIT = timedelta(hours=1)
"""A catch-up that has committed nothing for this long was interrupted: each of its steps reads for ten
minutes."""

Gaps = dict[str, "tuple[Gap, ...]"]
"""The gaps by shard id."""


def recorded_gaps(positions: StreamPositions, archived: Mapping[str, Iterable[Gap]]) -> Gaps:
    """Return the gaps of all shards.

    Args:
        positions: The positions.
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

    Args:
        chain: The chain of the table.
        positions: The table's positions.
        known: What this returned before.
        archive: The newest segment that this returned before; None at the first time.
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
    """Check that no gap is recorded that a replay has not filled, or that a catch-up is about to fill.

    Args:
        check: From when on gaps count.
        positions: The positions, for the streams of the same name that were deleted.
        gaps: What `recorded_gaps` returned.
        amendment: The table's newest amendment.
        now: The time.
    """
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
    return CheckResult(
        "no_accepted_data_loss",
        not lost and (goes_on or not waiting),
        check.severity,
        "; ".join(sentences) or "no records were given up",
        {"gaps": len(lost), "ranges_to_fill": len(waiting), **worst(rows)},
    )


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
