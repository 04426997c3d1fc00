"""Preview a run: what a configuration would do at each shard. It reads the stream and the table only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from kinesis_assets.errors import (
    InvalidInput,
    ShardListIncomplete,
    ShardListStale,
    StreamRecreated,
    TableError,
    TableUnreachable,
)
from kinesis_assets.ingest.plan import stored_positions
from kinesis_assets.ingest.shard_lists import (
    check_list,
    check_recent_parents,
    check_unlisted_parents,
    reason_to_keep,
)
from kinesis_assets.kinesis.listing_retries import retry_listing
from kinesis_assets.kinesis.start_positions import StartPositions, checked_starts
from kinesis_assets.kinesis.stream import unfinished_parents
from kinesis_assets.table.commits.commit import refuse_rows_without_positions
from kinesis_assets.table.ownership import refuse_other_stream
from kinesis_assets.table.rewrites import refuse_rewritten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kinesis_assets.ingest.plan import ReadPolicy
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.table.snapshot import TableSnapshot


class Effect(StrEnum):
    """What the next run does."""

    STARTS = "starts"
    """The shard has no stored position yet."""
    RESUMES = "resumes"
    """It continues at the stored position."""
    WAITS = "waits"
    """The shard's parents are read to their end first."""
    FINISHED = "finished"
    """The shard was read to its end, and is not read again."""
    GIVEN_UP = "given up"
    """The unread records of the shard are given up, and the gap is recorded."""
    REFUSED = "refused"
    """The run fails, as a whole or for the shard, before it reads anything of it."""


@dataclass(frozen=True, slots=True)
class ShardPreview:
    """What the next run does at one shard.

    Attributes:
        position: The position; None if the shard is not stored and cannot be read.
        reason: Why, or what may go wrong; None if there is nothing to say.
    """

    shard_id: str
    effect: Effect
    position: Position | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """What the next run does.

    Attributes:
        shards: The stored and the listed shards, parents before children; none if the run is refused.
        effect: What it does with the table: it starts, resumes or is refused.
        has_positions: The table has positions of this stream, so the configured start has no effect.
        snapshot: The version of the table; None if it does not exist or the run is refused.
        listing: The stream; None if the run is refused.
    """

    shards: tuple[ShardPreview, ...]
    effect: Effect
    reason: str
    has_positions: bool = False
    snapshot: TableSnapshot | None = None
    listing: StreamListing | None = None


def preview_run(client: StreamClient, table: PositionedTable, policy: ReadPolicy) -> Preview:
    """Preview the next run over all shards. The table need not exist.

    Raises:
        StreamError: The stream cannot be reached.
        TableUnreachable: The table cannot be reached.
    """
    try:
        return retry_listing(client, lambda listing: _preview(client, table, policy, listing))
    except TableUnreachable:
        raise
    except (InvalidInput, ShardListIncomplete, ShardListStale, StreamRecreated, TableError) as error:
        # The row names the table, and the command the stream.
        sentence = str(error).removeprefix(f"stream {client.stream}: ").removeprefix(f"table {table.uri}: ")
        return Preview((), Effect.REFUSED, sentence)


def _preview(
    client: StreamClient, table: PositionedTable, policy: ReadPolicy, listing: StreamListing
) -> Preview:
    identity = listing.summary.identity
    snapshot, positions = stored_positions(
        table, listing, policy.on_recreated, [shard.shard_id for shard in listing.shards]
    )
    if snapshot is not None and positions is not None:
        refuse_rewritten(table, snapshot, positions)
        if positions.identity == identity:
            shards = _stored(client, policy, listing, positions)
            reason = f"its positions of {identity.arn} continue"
            return Preview(tuple(shards), Effect.RESUMES, reason, True, snapshot, listing)
    check_recent_parents(listing)
    check_unlisted_parents(client, listing)
    if positions is None:
        if snapshot is not None:
            refuse_other_stream(table.uri, snapshot.streams_in_log(), identity)
            refuse_rows_without_positions(table, snapshot, identity)
        starts = checked_starts(client, policy.starts, listing)
        reason = f"the first run {'creates it' if snapshot is None else 'claims it'} for {identity.arn}"
        return Preview(tuple(_first(listing, starts)), Effect.STARTS, reason, False, snapshot, listing)
    shards = _first(listing, StartPositions().frozen(listing))
    reason = (
        f"the stream was deleted and created again at {identity.created:%Y-%m-%dT%H:%M:%SZ}, and "
        "on_recreated is restart: the new one is read from its start into the same table"
    )
    given_up = _given_up_with(positions)
    return Preview((*given_up, *shards), Effect.STARTS, reason, True, snapshot, listing)


def _first(listing: StreamListing, starts: Mapping[str, Position]) -> Iterator[ShardPreview]:
    known = {shard.shard_id for shard in listing.shards}
    ended = {shard.shard_id for shard in listing.shards if shard.ends_at(starts[shard.shard_id])}
    for shard in listing.shards:
        start = starts[shard.shard_id]
        if shard.shard_id in ended:
            yield ShardPreview(shard.shard_id, Effect.FINISHED, start)
        elif parents := unfinished_parents(shard.parents, known=known, finished=ended):
            yield ShardPreview(shard.shard_id, Effect.WAITS, start, _waits_for(parents))
        else:
            yield ShardPreview(shard.shard_id, Effect.STARTS, start)


def _given_up_with(positions: StreamPositions) -> Iterator[ShardPreview]:
    for shard_id, shard in positions.shards.items():
        if not shard.finished:
            reason = f"of the deleted stream created at {positions.identity.created:%Y-%m-%dT%H:%M:%SZ}"
            yield ShardPreview(shard_id, Effect.GIVEN_UP, shard.position, reason)


def _stored(
    client: StreamClient,
    policy: ReadPolicy,
    listing: StreamListing,
    positions: StreamPositions,
) -> Iterator[ShardPreview]:
    check_list(listing, positions)
    check_unlisted_parents(client, listing, positions.shards, positions.listed_at)
    expected, now = positions.with_listing(listing), listing.summary.service_time
    listed = {shard.shard_id for shard in listing.shards}
    given_up: set[str] = set()
    for shard_id, shard in expected.shards.items():
        effect = Effect.RESUMES
        reason: str | None = None
        parents = expected.waits_for(shard_id)
        if shard.finished:
            effect = Effect.FINISHED
        elif shard_id not in listed:
            error = reason_to_keep(
                client, expected, shard_id, now=now, on_data_loss=policy.on_data_loss, given_up=given_up
            )
            if error is None:
                given_up.add(shard_id)
                effect, reason = Effect.GIVEN_UP, "it has expired unread"
            else:
                effect, reason = Effect.REFUSED, error.sentence
        elif parents:
            effect, reason = Effect.WAITS, _waits_for(parents)
        elif shard_id not in positions.shards:
            effect, reason = Effect.STARTS, "no run has listed it yet"
        elif shard.safe_until is not None and shard.safe_until <= now:
            fails = policy.on_data_loss == "fail"
            does = "the shard fails" if fails else "the run continues and records the gap"
            reason = (
                f"unread records may have expired since {shard.safe_until:%Y-%m-%dT%H:%M:%SZ}; if so, {does} "
                f"(on_data_loss: {policy.on_data_loss})"
            )
        yield ShardPreview(shard_id, effect, shard.position, reason)


def _waits_for(parents: tuple[str, ...]) -> str:
    return f"for its parents {', '.join(parents)}"
