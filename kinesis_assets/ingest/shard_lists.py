"""Whether a shard list is believed: it may be stale, lack parents or shards, or report an end that is none.

ListShards is eventually consistent: a list may be older than a split or a merge that is already recorded.
Such a list is not used; the shards are listed again, and a contradiction that persists is an error.

A shard that is no longer listed and was not read to its end is given up only if three facts agree: it can
have expired by the service's clock, the list does not contain it, and the service refuses an iterator for
it.

A shard that a list showed as open cannot have expired before the retention has passed since that list.
There is no such time for a shard that was closed when it was first listed: it was closed up to a
retention earlier and may expire right after that list. If it were kept for a retention in any case, its
children would wait as long, and their records could expire. It is protected by the list and the iterator,
which are responses of different operations, and, once a run has read from it, by the time up to which it
was read.

If a list lacks parents that may be within the stream's retention, either the list is incomplete, or they
had expired before the retention was increased. A parent counts as expired only if three responses agree:
two lists do not contain it, and the service refuses an iterator for it.

A finished shard is never read again, so a task's report that it was read to its end is not enough: the
driver lists the shards itself. That takes one request for any number of shards, and none for shards that
were closed when the run was planned.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import (
    CallFailed,
    ParentUnfinished,
    ShardListIncomplete,
    ShardListStale,
    ShardVanished,
    StreamError,
    StreamRecreated,
)
from kinesis_assets.kinesis.data_loss import Gap, OnDataLoss
from kinesis_assets.kinesis.listing_retries import confirm_summary
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import RangeEnd
from kinesis_assets.kinesis.stream import SHORTEST_RETENTION

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable
    from datetime import datetime

    from kinesis_assets.errors import ShardError
    from kinesis_assets.ingest.manifest import Landing
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.positions.positions import ShardPosition, StreamPositions

_log = logging.getLogger(__name__)


def check_list(listing: StreamListing, positions: StreamPositions) -> None:
    """Check that a list contradicts none of the positions.

    Raises:
        StreamRecreated: The list is that of another stream of the same name.
        ShardListStale: It shows a finished shard as open.
        ShardListIncomplete: It lacks a parent that cannot have expired.
    """
    stream = positions.identity.name
    if listing.summary.identity != positions.identity:
        raise StreamRecreated(stream, "deleted and created again during this run; run again")
    if reasons := _contradictions(listing, positions):
        raise ShardListStale(stream, reasons)
    check_recent_parents(listing, positions.shards, positions.listed_at)


def check_recent_parents(
    listing: StreamListing, known: Container[str] = (), listed_at: datetime | None = None
) -> None:
    """Check that a list contains every parent that cannot have expired.

    Args:
        known, listed_at: See `check_unlisted_parents`, which checks the others.

    Raises:
        ShardListIncomplete: It lacks one.
    """
    if missing := _missing_parents(listing, known, listed_at, SHORTEST_RETENTION):
        raise ShardListIncomplete(
            listing.summary.identity.name,
            f"ListShards left out the parents {', '.join(missing)}; try again later",
        )


def _missing_parents(
    listing: StreamListing, known: Container[str], listed_at: datetime | None, retention: timedelta
) -> list[str]:
    """Return the parents of new shards that a list lacks, unless they may have expired.

    A closed shard stays listed for the retention. Within one retention of the previous list, or of the
    creation of the stream, no shard can have been opened and have expired.

    Args:
        retention: The stream's own may have been increased after a parent had expired, the shortest one not.
    """
    since = listed_at or listing.summary.identity.created
    if listing.summary.service_time - since >= retention:
        return []
    listed = {shard.shard_id for shard in listing.shards}
    parents = {parent for shard in listing.shards if shard.shard_id not in known for parent in shard.parents}
    return sorted(parent for parent in parents if parent not in listed and parent not in known)


def check_for_seek(listing: StreamListing, positions: StreamPositions) -> None:
    """Check that a list is not older than the positions in the table.

    A shard that is finished in the table may be listed as open, because a seek reopens it.

    Raises:
        ShardListStale: It shows a shard as open whose children were listed before.
    """
    if reasons := _with_children(listing, positions):
        raise ShardListStale(positions.identity.name, reasons)


def _contradictions(listing: StreamListing, positions: StreamPositions) -> dict[str, str]:
    """Return by shard id why listing the shard as open contradicts the positions, and what to do."""
    stream = positions.identity.name
    recorded = {shard_id: positions.shards.get(shard_id) for shard_id in _listed_open(listing)}
    wrongly_finished = {
        shard_id: (
            f"listed as open, but recorded as read to its end at {shard.position}. If a later run repeats "
            "this, the recorded end is wrong. To continue the shard there, run "
            f"`kinesis-assets seek --stream {stream} --shard {shard_id} --to {shard.position} --apply` "
            "in the stream's project"
        )
        for shard_id, shard in recorded.items()
        if shard is not None and shard.finished
    }
    return wrongly_finished | _with_children(listing, positions)


def _listed_open(listing: StreamListing) -> list[str]:
    return [shard.shard_id for shard in listing.shards if not shard.closed]


def _with_children(listing: StreamListing, positions: StreamPositions) -> dict[str, str]:
    """Return by shard id why listing the shard as open contradicts its recorded children."""
    listed = set(_listed_open(listing))
    children: dict[str, list[str]] = {}
    for shard_id, shard in positions.shards.items():
        # The parents of finished children are finished too.
        for parent in listed.intersection(shard.parents) if not shard.finished else ():
            children.setdefault(parent, []).append(shard_id)
    return {
        shard_id: f"listed as open, though its children {', '.join(of_shard)} were listed before. "
        "Nothing to do: the next run lists the shards again"
        for shard_id, of_shard in children.items()
    }


def reason_to_keep(
    client: StreamClient,
    expected: StreamPositions,
    shard_id: str,
    *,
    now: datetime,
    on_data_loss: OnDataLoss,
    given_up: Container[str],
) -> ShardError | None:
    """Return why a shard that is not listed cannot be given up; None if it can.

    Args:
        expected: The positions, with every listed shard.
        given_up: The shards that the same plan gives up.
    """
    shard = expected.shards[shard_id]
    fact = f"not listed by stream {expected.identity.name}, and read only up to {shard.position}"
    incomplete = "the list was incomplete. Nothing to do: the next run lists the shards again"
    if shard.listed_until is not None and shard.listed_until > now:
        # A closed shard stays listed for the retention period.
        return ShardVanished(
            shard_id,
            f"{fact}, though none of its records can have expired before "
            f"{shard.listed_until:%Y-%m-%dT%H:%M:%SZ}: {incomplete}",
        )
    parents = [parent for parent in expected.waits_for(shard_id) if parent not in given_up]
    if parents:
        return ParentUnfinished(
            shard_id, f"{fact}; waits for {', '.join(parents)} to be read to the end or given up"
        )
    try:
        can_be_read = exists(client, shard_id)
    except CallFailed as error:
        return ShardVanished(
            shard_id, f"{fact}; it is not known whether it has expired: {error.reason}. Run again"
        )
    if can_be_read:
        return ShardVanished(shard_id, f"{fact}, though it can still be read: {incomplete}")
    if on_data_loss == "continue":
        return None
    return ShardVanished(
        shard_id,
        f"{fact}; its later records have expired. To record this gap and continue with the shard's children, "
        "run with on_data_loss: continue",
    )


def exists(client: StreamClient, shard_id: str) -> bool:
    """Return whether the service returns an iterator for a shard. Raises `CallFailed` for other failures."""
    try:
        client.shard_iterator(shard_id, Position(PositionKind.TRIM_HORIZON))
    except CallFailed as error:
        if error.code != "ResourceNotFoundException":
            raise
        return False
    return True


def confirmed_listing(
    client: StreamClient, listing: StreamListing, known: Collection[str]
) -> tuple[StreamListing, list[str]]:
    """Return a list for positions that an operator sets, and the known shards that it lacks.

    These positions are permanent, so they must not depend on a single response.

    Raises:
        ShardListIncomplete: The list lacks shards.
    """
    check_recent_parents(listing)
    hours = max(listing.summary.retention_hours, confirm_summary(client, listing.summary).retention_hours)
    listing = listing.with_retention(hours)
    check_unlisted_parents(client, listing, known)
    return listing, sorted({*known} - {shard.shard_id for shard in listing.shards})


def refuse_readable(client: StreamClient, missing: Iterable[str]) -> None:
    """Refuse a list that lacks shards which can still be read. Raises `ShardListIncomplete`."""
    if readable := [shard_id for shard_id in missing if exists(client, shard_id)]:
        raise ShardListIncomplete(
            client.stream,
            f"ListShards left out {', '.join(readable)}, which can still be read; nothing was changed. Try "
            "again later",
        )


def give_up(shard: ShardPosition, now: datetime) -> ShardPosition:
    """Return the position of a shard that is given up: finished, with the gap recorded."""
    gap = Gap(after=shard.position, since=shard.complete_until, next_sequence_number=None, until=now)
    return msgspec.structs.replace(shard, finished=True, gaps=(*shard.gaps, gap))


def check_unlisted_parents(
    client: StreamClient,
    listing: StreamListing,
    known: Container[str] = (),
    listed_at: datetime | None = None,
) -> None:
    """Check that every parent that a list lacks has expired.

    No call is made if the list lacks none, or if the previous list is older than the retention, because
    shards that were created since may have expired unseen.

    Args:
        listing: Its list, with the retention to apply.
        known: The shards that were listed before.
        listed_at: The time of the previous list; None for the first list.

    Raises:
        ShardListIncomplete: A parent is listed now, or can still be read.
        CallFailed: It is not known whether a parent can still be read.
        StreamError: The stream's shards cannot be listed again.
    """
    retention = timedelta(hours=listing.summary.retention_hours)
    missing = _missing_parents(listing, known, listed_at, retention)
    if not missing:
        return
    listed_again = {shard.shard_id for shard in client.list_shards()}
    if listed := [shard_id for shard_id in missing if shard_id in listed_again]:
        raise _incomplete(listing, listed, "which the next list contains")
    for shard_id in missing:
        if exists(client, shard_id):
            raise _incomplete(listing, [shard_id], "which can still be read")


def _incomplete(listing: StreamListing, parents: list[str], why: str) -> ShardListIncomplete:
    return ShardListIncomplete(
        listing.summary.identity.name,
        f"ListShards left out the parents {', '.join(parents)}, {why}; nothing was changed. Try again later",
    )


def with_confirmed_ends(client: StreamClient, listing: StreamListing, landing: Landing) -> Landing:
    """Return what tasks have reported, in which only shards that the driver has seen closed have ended."""
    closed = {shard.shard_id for shard in listing.shards if shard.closed}
    ended = {shard.shard_id for shard in landing.shards if shard.end is RangeEnd.SHARD_END}
    if not ended - closed:
        return landing
    reason = "ListShards does not show it closed"
    try:
        closed |= {shard.shard_id for shard in client.list_shards() if shard.closed}
    except StreamError as error:
        reason = error.reason
    if not (unconfirmed := ended - closed):
        return landing
    _log.warning(
        "stream %s: the end of %s is not recorded yet: %s. Its records are committed; the next run continues "
        "at that position",
        client.stream,
        ", ".join(sorted(unconfirmed)),
        reason,
    )
    # Any end other than SHARD_END leaves a shard unfinished.
    shards = [
        msgspec.structs.replace(shard, end=RangeEnd.TIP) if shard.shard_id in unconfirmed else shard
        for shard in landing.shards
    ]
    return msgspec.structs.replace(landing, shards=tuple(shards))
