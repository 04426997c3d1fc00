"""Read the pages of one shard and check each of them before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kinesis_assets.errors import CallFailed
from kinesis_assets.kinesis.reading.shard_end import ShardEnd
from kinesis_assets.kinesis.records.page_checks import check_follows
from kinesis_assets.kinesis.service_time import ITERATOR_LIFETIME, UNCERTAIN, agree
from kinesis_assets.kinesis.transport.waits import with_socket_timeout

if TYPE_CHECKING:
    from datetime import datetime

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.records.wire import Page
    from kinesis_assets.kinesis.transport.memory_limiter import Reservation
    from kinesis_assets.kinesis.transport.waits import NonBlocking

_T = TypeVar("_T")


class PageSource:
    """The pages of one reading.

    Args:
        client: The client of the stream.
        shard_id: The shard.
        response_timeout: See `ShardRange.response_timeout`.
    """

    def __init__(self, client: StreamClient, shard_id: str, response_timeout: float | None) -> None:
        self._client = client
        self._shard_id = shard_id
        self._response_timeout = response_timeout
        self._shard_end = ShardEnd(client, shard_id)
        self._iterator: str | None = None
        self._issued: datetime | None = None

    @property
    def shard_ended(self) -> bool:
        """Whether the last page ended the shard."""
        return self._shard_end.reached

    @property
    def end_unconfirmed(self) -> bool:
        """Whether the next page may confirm the end of the shard."""
        return self._shard_end.unconfirmed

    def drop_iterator(self) -> None:
        """Request a new iterator for the next page."""
        self._iterator = None

    def continue_after(self, page: Page, served: datetime) -> None:
        """Take the iterator of the next page from a page that was read."""
        self._iterator, self._issued = page.next_shard_iterator, served

    def iterator(self, position: Position) -> NonBlocking[str]:
        """Return the iterator from the previous page, or a new one at a position."""
        if self._iterator is None:
            self._iterator, self._issued = yield from self._in_time(
                self._client.getting_iterator(self._shard_id, position)
            )
        return self._iterator

    def page(
        self, iterator: str, limit: int, position: Position, reservation: Reservation | None
    ) -> NonBlocking[tuple[Page, datetime]]:
        """Read a page with `StreamClient.getting_records`, and check it.

        Args:
            iterator: The iterator.
            limit: The maximum number of records.
            position: The position of the iterator.
            reservation: The memory reservation for the page.

        Returns:
            The page, and the service's clock at the response.

        Raises:
            CallFailed: The call failed, the page cannot follow the position, its time does not agree with the
                previous response, or the end of the shard is not confirmed.
        """
        page, served = yield from self._in_time(self._client.getting_records(iterator, limit, reservation))
        try:
            first = page.records.numbers[0] if page.records else None
            check_follows(self._client.stream, first, position)
            if self._issued is not None and not agree(self._issued, served, apart=ITERATOR_LIFETIME):
                raise CallFailed(
                    self._client.stream,
                    "GetRecords",
                    UNCERTAIN,
                    f"the response has the Date {served}, and the previous one {self._issued}",
                )
            yield from self._shard_end.check(
                null_iterator=page.next_shard_iterator is None,
                children=page.names_children_of(self._shard_id),
                records=_any_after(page, position),
            )
            return page, served
        finally:
            del page  # the traceback of an error must not keep the page alive

    def _in_time(self, call: NonBlocking[_T]) -> NonBlocking[_T]:
        """Apply `response_timeout` to a call."""
        within = self._response_timeout
        return call if within is None else with_socket_timeout(call, within)


def _any_after(page: Page, position: Position) -> bool:
    """Whether a page has records after its position. Inside an aggregate, it starts with that aggregate."""
    if not page.records:
        return False
    return position.sub_sequence_number is None or page.records.numbers[-1] != position.sequence_number
