"""Reads the pages of one shard up to its end, and checks each of them before it is used.

The end of a shard is never detected from a single response. The service ends a shard with a null
NextShardIterator and the shard's children in the same response. If that response lacked some of the shard's
records, they would be lost, because a finished shard is never read again. Reading therefore continues after
the last record with a new iterator, and the shard has ended if the response to that has a null iterator
again and no records.

Services that do not return children, such as older emulators, end a shard in the same two steps; it has
ended if a list of shards that is requested afterwards shows it closed. An empty page may come in between.

Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html; the Kinesis Client
Library retries responses with a null iterator alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kinesis_assets.errors import CallFailed, ShardListIncomplete
from kinesis_assets.kinesis.records.wire import RepeatedPage, check_follows
from kinesis_assets.kinesis.stream import ITERATOR_LIFETIME, UNCERTAIN, agree

if TYPE_CHECKING:
    from datetime import datetime

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.records.wire import Page
    from kinesis_assets.kinesis.transport.concurrency import Reservation


UNCONFIRMED = "ShardEndUnconfirmed"
"""The code of the `CallFailed` for a response that ends a shard without confirmation."""

INCOMPLETE = "IncompletePage"
"""The code of the `CallFailed` for a page without the record at its position, which another page has."""


class PageSource:
    """The pages of one reading, by GetRecords. `ReceivedPages` can take its place.

    Args:
        response_timeout: See `ShardRange.response_timeout`.

    Attributes:
        shard_ended: Whether the last page ended the shard.
        end_unconfirmed: Whether a page has ended the shard, and a second one must confirm it.
        seconds_left: Returns the time in seconds for each call; None for that of the client.
    """

    exhausted = False
    """Whether the next page cannot be read yet."""

    has_more = False
    """Whether more has arrived than the pages that were read."""

    refused = None
    """Why GetRecords reads instead of something else."""

    uses_shared_rates = True
    """Whether the last page counts against the rates that all consumers of the shard share."""

    def __init__(self, client: StreamClient, shard_id: str, response_timeout: float | None) -> None:
        self.shard_ended = False
        self.end_unconfirmed = False
        self._client = client
        self._shard_id = shard_id
        self.seconds_left = None if response_timeout is None else lambda: response_timeout
        self._iterator: str | None = None
        self._issued: datetime | None = None

    def drop_iterator(self) -> None:
        """Request a new iterator for the next page."""
        self._iterator = None

    async def connect(self, position: Position) -> None:
        """Get what the next page is read with: an iterator, unless the previous page had one."""
        if self._iterator is None:
            self._iterator, self._issued = await self._client.getting_iterator(
                self._shard_id, position, self.seconds_left
            )

    async def page(self, limit: int, position: Position, reservation: Reservation) -> tuple[Page, datetime]:
        """Read a page of at most `limit` records from a position after `connect`, and check it.

        Returns:
            The page, and the service's clock at the response.

        Raises:
            CallFailed: The call failed, the page cannot follow the position, its time does not agree with the
                previous response, the end of the shard is not confirmed, or listing the shards failed.
        """
        page, served = await self._client.getting_records(
            self._iterator or "", limit, reservation, self.seconds_left
        )
        try:
            self._check_follows(page.records.numbers[0] if page.records else None, position)
            if self._issued is not None and not agree(self._issued, served, apart=ITERATOR_LIFETIME):
                raise self._failure(
                    UNCERTAIN, f"the response has the Date {served}, and the previous one {self._issued}"
                )
            await self._check_end(
                null_iterator=page.next_shard_iterator is None,
                children=page.names_children_of(self._shard_id),
                records=_any_after(page, position),
            )
            self._iterator, self._issued = page.next_shard_iterator, served
            return page, served
        finally:
            del page  # the traceback of an error must not keep the page alive

    def _check_follows(self, first: str | None, position: Position) -> None:
        try:
            check_follows(first, position)
        except RepeatedPage as error:
            raise self._failure(type(error).__name__, str(error)) from None

    async def _check_end(self, *, null_iterator: bool, children: bool, records: bool) -> None:
        """Check a page before any of it is used.

        Args:
            null_iterator: Whether NextShardIterator is missing.
            children: Whether the page names children of the shard.
            records: Whether it has records after the position. More may follow them.
        """
        second, self.shard_ended = self.end_unconfirmed and not records, False
        if null_iterator or records:
            self.end_unconfirmed = null_iterator
        if not (null_iterator and second):
            return
        if children:
            self.shard_ended = True
            return
        try:
            shards = await asyncio.to_thread(self._client.list_shards)
        except ShardListIncomplete as error:
            raise self._unconfirmed(error.reason) from None
        self.shard_ended = any(shard.shard_id == self._shard_id and shard.closed for shard in shards)
        if not self.shard_ended:
            raise self._unconfirmed("ListShards does not show the shard closed")

    def _unconfirmed(self, reason: str) -> CallFailed:
        return self._failure(UNCONFIRMED, f"NextShardIterator is null without ChildShards, and {reason}")

    def _failure(self, code: str, reason: str) -> CallFailed:
        return CallFailed(self._client.stream, "GetRecords", code, reason)


def _any_after(page: Page, position: Position) -> bool:
    """Whether a page has records after its position. Inside an aggregate, it starts with that aggregate."""
    if not page.records:
        return False
    return position.sub_sequence_number is None or page.records.numbers[-1] != position.sequence_number
