"""Whether a list of shards contradicts the positions in the table.

ListShards is eventually consistent: a list may be from before a split or a merge that is already recorded.
Nothing is concluded from such a list; it is requested again, and a contradiction that persists is an error.
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
    from kinesis_assets.table.positions import StreamPositions


def check_list(listing: StreamListing, positions: StreamPositions, table: str) -> None:
    """See that a list contradicts none of the positions.

    Args:
        listing: The list.
        positions: The positions in the table.
        table: The table's URI.

    Raises:
        StreamRecreated: The list is of another stream of the same name.
        ShardListStale: It shows a shard open that has ended.
        ShardListIncomplete: It lacks a parent that cannot have expired.
    """
    stream = positions.identity.name
    if listing.summary.identity != positions.identity:
        raise StreamRecreated(stream, "deleted and created again meanwhile; run again")
    if reasons := contradictions(listing, positions, table):
        raise ShardListStale(stream, reasons)
    _refuse_missing_parents(listing, positions.shards, positions.listed_at)


def check_first_list(listing: StreamListing) -> None:
    """See that the first list of a stream lacks no parent that cannot have expired.

    Raises:
        ShardListIncomplete: It does.
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
    """See that a list is not from before what is recorded.

    A shard that is finished in the table and listed as open passes: a seek reopens it.

    Raises:
        ShardListStale: It shows a shard open whose children were listed before.
    """
    if reasons := _with_children(listing, positions):
        raise ShardListStale(positions.identity.name, reasons)


def contradictions(listing: StreamListing, positions: StreamPositions, table: str) -> dict[str, str]:
    """By shard id, why a list that shows the shard open contradicts the positions, and what to do."""
    finished = finished_among(positions, _listed_open(listing))
    stream = positions.identity.arn  # it names the stream whatever account and region the command has
    wrongly_finished = {
        shard_id: (
            f"listed as open, but recorded as read to its end at {positions.shards[shard_id].position}. "
            "If a later run repeats this, the record is wrong. To read the shard on from there, run "
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
        "Nothing to do: the next run lists again"
        for shard_id, children in known_children(positions, _listed_open(listing)).items()
    }


def finished_among(positions: StreamPositions, shard_ids: Iterable[str]) -> list[str]:
    """The shards of these that are recorded as read to their end."""
    return [
        shard_id
        for shard_id in shard_ids
        if shard_id in positions.shards and positions.shards[shard_id].finished
    ]


def known_children(positions: StreamPositions, shard_ids: Iterable[str]) -> dict[str, list[str]]:
    """By shard id, the recorded children that are not read to their end.

    Children that are read to their end need not be searched: their parents are, too.
    """
    wanted = set(shard_ids)
    children: dict[str, list[str]] = {}
    for shard_id, shard in positions.shards.items():
        for parent in wanted.intersection(shard.parents) if not shard.finished else ():
            children.setdefault(parent, []).append(shard_id)
    return children
