"""Listing again: a list of shards that is incomplete or stale is usually right a few seconds later."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kinesis_assets.errors import ServiceTimeUncertain, ShardListIncomplete, ShardListStale

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import StreamListing, StreamSummary

WAITS = (0.5, 1.0, 2.0)
"""Seconds before each further try."""

_T = TypeVar("_T")


def relisted(
    client: StreamClient, use: Callable[[StreamListing], _T], listing: StreamListing | None = None
) -> _T:
    """Use the first list of shards that contradicts nothing.

    Args:
        client: The stream.
        use: Takes a list and returns the result. It raises `ShardListStale` or `ShardListIncomplete` for a
            list that is to be requested again.
        listing: A list to try first, made shortly before.

    Raises:
        ShardListStale, ShardListIncomplete, ServiceTimeUncertain: Each of the bounded tries raised it.
        StreamError: The stream cannot be listed.
    """
    if listing is not None:
        try:
            return use(listing)
        except (ShardListStale, ShardListIncomplete):
            pass  # it is not the newest
    return _tried(client, lambda: use(client.listing()))


def confirmed(client: StreamClient, summary: StreamSummary) -> StreamSummary:
    """A second description of a stream, before something is recorded for good.

    Who records a retention takes the longer one of both: a shorter one counts once two responses have it.

    Raises:
        ServiceTimeUncertain: The second response is from before the first, for each of the bounded tries.
        StreamError: The stream cannot be described.
    """
    return _tried(client, lambda: summary.confirmed_by(client.describe()))


def _tried(client: StreamClient, attempt: Callable[[], _T]) -> _T:
    for seconds in WAITS:
        try:
            return attempt()
        except (ShardListStale, ShardListIncomplete, ServiceTimeUncertain):
            client.wait(seconds)
    return attempt()
