"""The pages of one shard, each of them checked before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kinesis_assets.errors import CallFailed
from kinesis_assets.kinesis.reading.shard_end import ShardEnd
from kinesis_assets.kinesis.records.page_checks import check_follows
from kinesis_assets.kinesis.service_time import ITERATOR_LIFETIME, UNCERTAIN, agree
from kinesis_assets.kinesis.transport.awaitables import in_time

if TYPE_CHECKING:
    from datetime import datetime

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.records.wire import Page
    from kinesis_assets.kinesis.transport.awaitables import Waits
    from kinesis_assets.kinesis.transport.memory_limiter import Seat

_T = TypeVar("_T")


class PageSource:
    """One reading's.

    Args:
        client: The stream.
        shard_id: The shard.
        answer_within: As that of `ShardRange`.
    """

    def __init__(self, client: StreamClient, shard_id: str, answer_within: float | None) -> None:
        self._client = client
        self._shard_id = shard_id
        self._answer_within = answer_within
        self._shard_end = ShardEnd(client, shard_id)
        self._iterator: str | None = None
        self._issued: datetime | None = None

    @property
    def shard_ended(self) -> bool:
        """Whether the last page ends the shard."""
        return self._shard_end.reached

    def drop_iterator(self) -> None:
        """Have the next call ask for a fresh one."""
        self._iterator = None

    def accept(self, page: Page, served: datetime) -> None:
        """Go on after a page."""
        self._iterator, self._issued = page.next_shard_iterator, served

    def iterator(self, position: Position) -> Waits[str]:
        """The iterator that the page before came with, or a fresh one at a position."""
        if self._iterator is None:
            self._iterator, self._issued = yield from self._in_time(
                self._client.getting_iterator(self._shard_id, position)
            )
        return self._iterator

    def page(
        self, iterator: str, limit: int, position: Position, seat: Seat | None
    ) -> Waits[tuple[Page, datetime]]:
        """A page that can follow a position, whose time agrees with the response before it, and whose end of
        the shard is proven.
        """
        return (yield from self._in_time(self._checked_page(iterator, limit, position, seat)))

    def _checked_page(
        self, iterator: str, limit: int, position: Position, seat: Seat | None
    ) -> Waits[tuple[Page, datetime]]:
        page, served = yield from self._client.getting_records(iterator, limit, seat)
        try:
            first = page.records.numbers[0] if page.records else None
            check_follows(self._client.stream, first, position)
            if self._issued is not None and not agree(self._issued, served, apart=ITERATOR_LIFETIME):
                raise CallFailed(
                    self._client.stream,
                    "GetRecords",
                    UNCERTAIN,
                    f"its Date is {served}, and that of the response before it {self._issued}",
                )
            yield from self._shard_end.check(
                null_iterator=page.next_shard_iterator is None,
                children=page.names_children_of(self._shard_id),
                records=bool(page.records),
            )
            return page, served
        finally:
            del page  # an error keeps what is in its frames

    def _in_time(self, call: Waits[_T]) -> Waits[_T]:
        """A call, which gives up as early as the range says."""
        within = self._answer_within
        return call if within is None else in_time(call, within)
