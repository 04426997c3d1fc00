"""The check that no records were given up, from the gaps that the table records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.dagster.checks.result import CheckResult, counted, worst

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from kinesis_assets.dagster.settings.stream_check_settings import NoAcceptedDataLossCheck
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.positions.positions_chain import PositionsChain

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
    check: NoAcceptedDataLossCheck, positions: StreamPositions, gaps: Gaps, amendment: Amendment | None
) -> CheckResult:
    """Check that no gap is recorded that a replay has not filled.

    Args:
        check: From when on gaps count.
        positions: The positions, for the streams of the same name that were deleted.
        gaps: What `recorded_gaps` returned.
        amendment: The table's newest amendment.
    """
    counting = sorted(
        (
            (gap.until, shard_id, str(gap))
            for shard_id, of_shard in gaps.items()
            for gap in of_shard
            if _counts(check, gap.until)
            and not (amendment is not None and amendment.has_cleared(shard_id, gap))
        ),
        reverse=True,
    )
    deleted = [each for each in _deleted_streams(positions) if _counts(check, each[0])]
    lost = sorted([*counting, *deleted], reverse=True)
    if lost:
        until, place, sentence = lost[0]
        description = (
            f"{counted(len(lost), 'gap')} in which records may be missing, the newest in {place} until "
            f"{until:%Y-%m-%dT%H:%M:%SZ}: {sentence}. Replay what the stream still has, or set "
            "checks.no_accepted_data_loss.since to a later time"
        )
    else:
        description = "no records were given up"
    rows = [
        {"shard": place, "until": f"{until:%Y-%m-%dT%H:%M:%SZ}", "gap": sentence}
        for until, place, sentence in lost
    ]
    return CheckResult(
        "no_accepted_data_loss", not lost, check.severity, description, {"gaps": len(lost), **worst(rows)}
    )


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
