"""The pages of one reading by a subscription where there is one, and by GetRecords where there is none.

A subscription never fails a reading: whatever is wrong with it, GetRecords reads on at the same position,
with its own checks and retries, until the consumer may subscribe again. The end of a shard is read by
GetRecords too, so that it is confirmed as always, see `pages`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.reading.pages import PageSource
    from kinesis_assets.kinesis.reading.subscription import Subscription
    from kinesis_assets.kinesis.records.records import Records
    from kinesis_assets.kinesis.records.wire import Page
    from kinesis_assets.kinesis.transport.concurrency import Reservation


class SubscribedPages:
    """The pages of one reading, with the methods of `PageSource`.

    Args:
        subscription: The subscription to the shard.
        polls: The pages by GetRecords.
        closed: Whether the shard accepts no more records, so that its tip is its end.
    """

    def __init__(self, subscription: Subscription, polls: PageSource, *, closed: bool) -> None:
        self._subscription = subscription
        self._polls = polls
        self._closed = closed
        self._subscribed = False

    @property
    def shard_ended(self) -> bool:
        """Whether the last page ended the shard."""
        return self._polls.shard_ended

    @property
    def end_unconfirmed(self) -> bool:
        """Whether the next page may confirm the end of the shard."""
        return self._polls.end_unconfirmed

    @property
    def uses_shared_rates(self) -> bool:
        """Whether the last page counts against the rates that all consumers of the shard share."""
        return not self._subscribed

    def drop_iterator(self) -> None:
        """Request a new iterator for the next page by GetRecords."""
        self._polls.drop_iterator()

    def continue_after(self, page: Page, served: datetime) -> None:
        """Continue after a page that was read."""
        if self._subscribed:
            self._polls.drop_iterator()
        else:
            self._subscription.note_polled(page, served)
            self._polls.continue_after(page, served)

    def keep_unread(self, records: Records, position: Position) -> None:
        """Keep the records of the last page that are after a position, where the reading ends."""
        if self._subscribed:
            self._subscription.keep_unread(records, position)

    async def connect(self, position: Position) -> None:
        """Get what the next page is read with: a subscription or, if that is not possible, an iterator."""
        self._subscribed = not self.end_unconfirmed and await self._subscription.connect(position)
        if not self._subscribed:
            await self._polls.connect(position)

    async def page(
        self, limit: int, position: Position, reservation: Reservation | None
    ) -> tuple[Page, datetime]:
        """Return the page at a position after `connect`, see `PageSource.page`."""
        if self._subscribed:
            found = await self._subscription.page(position, reservation)
            if found is not None and (found[0].records or not self._closed):
                return found
            self._subscribed = False
            await self._polls.connect(position)
        return await self._polls.page(limit, position, reservation)
