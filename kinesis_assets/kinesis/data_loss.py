"""When records may have expired unread, and how the gap is recorded.

If every record that arrived before some time has been read, none can have expired unread until that time is
older than the retention. After that a loss is possible, even in an idle shard: the service may skip trimmed
records without reporting it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

import msgspec

from kinesis_assets.errors import DataLost
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.stream import CLOCK_STEP

if TYPE_CHECKING:
    from kinesis_assets.kinesis.records.wire import Page


OnDataLoss = Literal["fail", "continue"]
"""How a run handles a shard whose records may have been lost.

`fail` fails the shard and keeps its position. `continue` continues with the first available record and
records the gap with the positions.
"""


class Gap(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A part of a shard in which records may be missing, skipped because the policy allowed it.

    Attributes:
        after: The shard's position before the gap.
        since: All records that arrived before this time are in the table; None if the time is unknown.
        next_sequence_number: The first record after the gap; None if there was none.
        until: The arrival of that record or, if there was none, the time of the response without records.
        to_fill: A catch-up skipped the records, and is to add them.
    """

    after: Position
    since: datetime | None
    next_sequence_number: str | None
    until: datetime
    to_fill: bool = False

    def is_same_as(self, recorded: Gap | None) -> bool:
        """Whether this is the recorded gap, found again because the position has not moved since."""
        return (
            recorded is not None
            and self.next_sequence_number is not None
            and (self.after, self.next_sequence_number) == (recorded.after, recorded.next_sequence_number)
        )

    def __str__(self) -> str:
        found = self.next_sequence_number or "nothing"
        length = "" if self.since is None else f", {str(self.until - self.since).partition('.')[0]} later"
        since = "an unknown time" if self.since is None else f"{self.since:%Y-%m-%dT%H:%M:%SZ}"
        return (
            f"read up to {self.after}, complete until {since}; first available record: {found}, "
            f"{self.until:%Y-%m-%dT%H:%M:%SZ}{length}"
        )


def has_unread_rest(position: Position, last_gap: Gap | None) -> bool:
    """Return whether a position is inside an aggregate whose rest was not given up.

    Args:
        last_gap: The gap of the shard that was recorded last.
    """
    given_up = last_gap is not None and last_gap.after == position
    return position.sub_sequence_number is not None and not given_up


class Expiry(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that decide whether records may have expired before a range was read.

    Attributes:
        complete_until: Every record that arrived before this time has been read or is not wanted.
        retention_hours: The stream's shortest retention since that time.
        last_gap: The gap recorded last; it is neither reported nor recorded again.
    """

    complete_until: datetime
    retention_hours: int
    on_data_loss: OnDataLoss
    last_gap: Gap | None = None

    @property
    def retention(self) -> timedelta:
        """How long records are kept."""
        return timedelta(hours=self.retention_hours)

    def is_possible(self, now: datetime) -> bool:
        """Return whether unread records may have expired, by the service's clock."""
        return _may_have_expired(self.complete_until, self.retention, now)


def _may_have_expired(complete_until: datetime, retention: timedelta, now: datetime) -> bool:
    return now + CLOCK_STEP >= complete_until + retention


HORIZON_MARGIN = timedelta(minutes=1)
"""A read from TRIM_HORIZON has left the trim horizon once its records have this long until they expire."""


class LossDetector:
    """The detection of lost records in one reading."""

    def __init__(self, shard_id: str, expiry: Expiry, start: Position) -> None:
        self._shard_id = shard_id
        self._expiry = expiry
        self._start = start
        self._complete_until: datetime | None = expiry.complete_until

    def possible_gap(self, page: Page, served: datetime, position: Position) -> Gap | None:
        """Return the gap between a position and the page read from it, if records may have expired there.

        Args:
            served: The service's clock at the response.
        """
        since, number = self._complete_until, position.sequence_number
        first = page.records[0] if page.records else None
        if since is None or (first is not None and first.sequence_number == number):
            return None  # the record at the position is available, and so are all after it
        if first is None and page.next_shard_iterator is not None and page.millis_behind_latest > 0:
            return None  # the next record is not known yet
        broken = has_unread_rest(position, self._expiry.last_gap)  # the rest of the aggregate is missing
        if not broken and not _may_have_expired(since, self._expiry.retention, served):
            return None
        return Gap(
            after=position,
            since=since,
            next_sequence_number=None if first is None else first.sequence_number,
            until=served if first is None else first.arrival,
        )

    def accept(self, gap: Gap) -> bool:
        """Apply the policy to a confirmed gap, and return whether to record it: it may be recorded already.

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
