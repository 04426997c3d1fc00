"""Detect records of a range that may have expired before they were read."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from kinesis_assets.errors import DataLost
from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import PositionKind
from kinesis_assets.kinesis.stream import CLOCK_STEP

if TYPE_CHECKING:
    from datetime import datetime

    from kinesis_assets.kinesis.data_loss import Expiry
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.records.wire import Page

HORIZON_MARGIN = timedelta(minutes=1)
"""A read from TRIM_HORIZON has left the trim horizon once its records have this long until they expire."""


class LossDetector:
    """The detection of lost records in one reading.

    Args:
        shard_id: The shard.
        expiry: The facts about the expiry of the shard's records.
        start: The start of the range.
    """

    def __init__(self, shard_id: str, expiry: Expiry, start: Position) -> None:
        self._shard_id = shard_id
        self._expiry = expiry
        self._start = start
        self._complete_until: datetime | None = expiry.complete_until

    def possible_gap(self, page: Page, served: datetime, position: Position) -> Gap | None:
        """Return the gap between a position and the page read from it, if records may have expired there.

        Args:
            page: The page.
            served: The service's clock at the response.
            position: The position.
        """
        since, number = self._complete_until, position.sequence_number
        first = page.records[0] if page.records else None
        if since is None or (first is not None and first.sequence_number == number):
            return None  # the record at the position is available, and so are all after it
        if first is None and page.next_shard_iterator is not None and page.millis_behind_latest > 0:
            return None  # the next record is not known yet
        broken = position.sub_sequence_number is not None  # the rest of the aggregate is not available
        if not broken and served + CLOCK_STEP < since + self._expiry.retention:
            return None
        return Gap(
            after=position,
            since=since,
            next_sequence_number=None if first is None else first.sequence_number,
            until=served if first is None else first.arrival,
        )

    def accept(self, gap: Gap) -> bool:
        """Apply the policy to a confirmed gap.

        Returns:
            Whether to record the gap; False if it is already recorded.

        Raises:
            DataLost: The policy is to fail.
        """
        self._complete_until = None
        if gap.is_same_as(self._expiry.last_gap):
            return False
        if self._expiry.on_data_loss == "fail":
            raise DataLost(
                self._shard_id,
                f"records may have expired unread: {gap}. To continue from there and record this gap, run "
                "with on_data_loss: continue",
            )
        return True

    def note_records(self, arrival: datetime, served: datetime, *, first: bool) -> None:
        """Record that records were yielded.

        Args:
            arrival: The arrival of the last one.
            served: The service's clock at the response.
            first: Whether they are the first ones of the range.
        """
        # A read from TRIM_HORIZON may see records expire until it has left the horizon; this is no loss.
        left_horizon = arrival + self._expiry.retention > served + HORIZON_MARGIN
        at_horizon = first and self._start.kind is PositionKind.TRIM_HORIZON
        watched = left_horizon or not (at_horizon or self._complete_until is None)
        self._complete_until = arrival if watched else None
