"""Checks whether a shard list contradicts the positions in the table.

ListShards is eventually consistent: a list may be older than a split or a merge that is already recorded.
Such a list is not used; the shards are listed again, and a contradiction that persists is an error.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from kinesis_assets.errors import ShardListIncomplete, ShardListStale, StreamRecreated
from kinesis_assets.kinesis.shards import missing_parents

if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from datetime import datetime

    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.positions.positions import StreamPositions


def check_list(listing: StreamListing, positions: StreamPositions, table: str) -> None:
    """Check that a list contradicts none of the positions.

    Args:
        listing: The list.
        positions: The positions in the table.
        table: The table's URI.

    Raises:
        StreamRecreated: The list is that of another stream of the same name.
        ShardListStale: It shows a finished shard as open.
        ShardListIncomplete: It lacks a parent that cannot have expired.
    """
    stream = positions.identity.name
    if listing.summary.identity != positions.identity:
        raise StreamRecreated(stream, "deleted and created again during this run; run again")
    if reasons := contradictions(listing, positions, table):
        raise ShardListStale(stream, reasons)
    _refuse_missing_parents(listing, positions.shards, positions.listed_at)


def check_first_list(listing: StreamListing) -> None:
    """Check that the first list of a stream contains every parent that cannot have expired.

    Raises:
        ShardListIncomplete: It lacks one.
    """
    _refuse_missing_parents(listing, (), None)


def _refuse_missing_parents(
    listing: StreamListing, known: Container[str], listed_at: datetime | None
) -> None:
    summary = listing.summary
    since = listed_at or summary.identity.created
    if missing := missing_parents(listing.shards, known, since=since, now=summary.service_time):
        raise ShardListIncomplete(
            summary.identity.name, f"ListShards left out the parents {', '.join(missing)}; try again later"
        )


def check_for_seek(listing: StreamListing, positions: StreamPositions) -> None:
    """Check that a list is not older than the positions in the table.

    A shard that is finished in the table may be listed as open, because a seek reopens it.

    Raises:
        ShardListStale: It shows a shard as open whose children were listed before.
    """
    if reasons := _with_children(listing, positions):
        raise ShardListStale(positions.identity.name, reasons)


def contradictions(listing: StreamListing, positions: StreamPositions, table: str) -> dict[str, str]:
    """Return by shard id why listing the shard as open contradicts the positions, and what to do."""
    finished = finished_among(positions, _listed_open(listing))
    stream = positions.identity.arn  # valid whatever account and region the command runs with
    wrongly_finished = {
        shard_id: (
            f"listed as open, but recorded as read to its end at {positions.shards[shard_id].position}. "
            "If a later run repeats this, the recorded end is wrong. To continue the shard there, run "
            f"`kinesis-assets seek --stream {stream} --table {shlex.quote(table)} --shard {shard_id} "
            f"--to {positions.shards[shard_id].position} --apply`"
        )
        for shard_id in finished
    }
    return wrongly_finished | _with_children(listing, positions)


def _listed_open(listing: StreamListing) -> list[str]:
    return [shard.shard_id for shard in listing.shards if not shard.closed]


def _with_children(listing: StreamListing, positions: StreamPositions) -> dict[str, str]:
    return {
        shard_id: f"listed as open, though its children {', '.join(children)} were listed before. "
        "Nothing to do: the next run lists the shards again"
        for shard_id, children in known_children(positions, _listed_open(listing)).items()
    }


def finished_among(positions: StreamPositions, shard_ids: Iterable[str]) -> list[str]:
    """Return those of the shards that are recorded as read to their end."""
    return [
        shard_id
        for shard_id in shard_ids
        if shard_id in positions.shards and positions.shards[shard_id].finished
    ]


def known_children(positions: StreamPositions, shard_ids: Iterable[str]) -> dict[str, list[str]]:
    """Return by shard id the recorded children that are not read to their end.

    Finished children are ignored, because their parents are finished too.
    """
    wanted = set(shard_ids)
    children: dict[str, list[str]] = {}
    for shard_id, shard in positions.shards.items():
        for parent in wanted.intersection(shard.parents) if not shard.finished else ():
            children.setdefault(parent, []).append(shard_id)
    return children
