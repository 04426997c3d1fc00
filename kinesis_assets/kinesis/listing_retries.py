"""Retry the listing of a stream: an incomplete or stale list is usually correct a few seconds later."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from kinesis_assets.errors import ServiceTimeUncertain, ShardListIncomplete, ShardListStale
from kinesis_assets.retry import retry

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import StreamListing, StreamSummary

_T = TypeVar("_T")


def retry_listing(
    client: StreamClient, use: Callable[[StreamListing], _T], listing: StreamListing | None = None
) -> _T:
    """Pass lists of the stream's shards to a function until it accepts one.

    Args:
        use: The function. It raises `ShardListStale` or `ShardListIncomplete` to request a new list.
        listing: A recent list to try first.

    Raises:
        ShardListStale, ShardListIncomplete, ServiceTimeUncertain: The last of the bounded attempts raised it.
    """
    if listing is not None:
        try:
            return use(listing)
        except (ShardListStale, ShardListIncomplete):
            pass  # a newer list may be correct
    return _tried(client, lambda: use(client.listing()))


def list_shards(client: StreamClient) -> StreamListing:
    """Return the first complete list of the stream's shards. Raises what `retry_listing` raises."""
    return retry_listing(client, lambda listing: listing)


def confirm_summary(client: StreamClient, summary: StreamSummary) -> StreamSummary:
    """Describe a stream a second time, before something permanent is recorded.

    A caller that records a retention uses the longer of the two: a shorter one needs two responses.

    Raises:
        ServiceTimeUncertain: In all attempts the second response is older than the first.
    """
    return _tried(client, lambda: summary.confirm_with(client.describe()))


def confirm_mode(client: StreamClient, listing: StreamListing, *, provisioned: bool) -> StreamListing:
    """Return a listing; describe the stream again if it does not show the mode that was seen before.

    Raises what `confirm_summary` raises.
    """
    if not provisioned or listing.summary.on_demand is False:
        return listing
    mode = confirm_summary(client, listing.summary).on_demand
    return replace(listing, summary=replace(listing.summary, on_demand=mode))


def _tried(client: StreamClient, attempt: Callable[[], _T]) -> _T:
    timing = client.settings.timing
    return retry(
        attempt,
        on=(ShardListStale, ShardListIncomplete, ServiceTimeUncertain),
        policy=timing.list_retries,
        sleep=timing.clock.sleep,
    )
