"""Whether records of a range may have expired before they were read."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from kinesis_assets.errors import DataLost
from kinesis_assets.kinesis.data_loss import Gap, OnDataLoss
from kinesis_assets.kinesis.position import PositionKind
from kinesis_assets.kinesis.stream import CLOCK_STEP

if TYPE_CHECKING:
    from datetime import datetime

    from kinesis_assets.kinesis.data_loss import Expiry
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.records.wire import Page

HORIZON_MARGIN = timedelta(minutes=1)
"""Who began at the oldest record there is has drawn away from it when so far inside the retention."""


class LossDetector:
    """One reading's.

    Args:
        shard_id: The shard.
        expiry: When records may have expired.
        start: Where the reading begins.
    """

    def __init__(self, shard_id: str, expiry: Expiry, start: Position) -> None:
        self._shard_id = shard_id
        self._expiry = expiry
        self._start = start
        self._complete_until: datetime | None = expiry.complete_until

    def possible_gap(self, page: Page, served: datetime, position: Position) -> Gap | None:
        """Where records may have expired between a position and the page after it."""
        since, number = self._complete_until, position.sequence_number
        first = page.records[0] if page.records else None
        if since is None or (first is not None and first.sequence_number == number):
            return None  # the record itself is still there, and so is all after it
        if first is None and page.next_shard_iterator is not None and page.millis_behind_latest > 0:
            return None  # not known yet
        broken = position.sub_sequence_number is not None  # and the rest of the aggregate is not there
        if not broken and served + CLOCK_STEP < since + self._expiry.retention:
            return None
        return Gap(
            after=position,
            since=since,
            next_sequence_number=None if first is None else first.sequence_number,
            until=served if first is None else first.arrival,
        )

    def accept(self, gap: Gap) -> bool:
        """Whether a gap is to be recorded and gone past; not if it is recorded.

        Raises:
            DataLost: It fails the shard.
        """
        self._complete_until = None
        if gap.is_again(self._expiry.last_gap):
            return False
        if self._expiry.on_data_loss is OnDataLoss.FAIL:
            raise DataLost(
                self._shard_id,
                f"records may have expired unread: {gap}. To go on from there with this gap recorded, run "
                f"with on_data_loss: {OnDataLoss.CONTINUE}",
            )
        return True

    def note_handed_out(self, arrival: datetime, served: datetime, *, first: bool) -> None:
        """Note the last arrival of records that were handed out."""
        # Whoever begins at the oldest record there is may see some expire until it has drawn away.
        drawn_away = arrival + self._expiry.retention > served + HORIZON_MARGIN
        horizon = first and self._start.kind is PositionKind.TRIM_HORIZON
        watched = drawn_away or not (horizon or self._complete_until is None)
        self._complete_until = arrival if watched else None
