"""When records may have expired unread, and how the gap is recorded.

If every record that arrived before some time has been read, none can have expired unread until that time is
older than the retention. After that a loss is possible, even in an idle shard: the service may skip trimmed
records without reporting it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

import msgspec

from kinesis_assets.kinesis.position import Position

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
        since = "an unknown time" if self.since is None else _text(self.since)
        return (
            f"read up to {self.after}, complete until {since}; first available record: {found}, "
            f"{_text(self.until)}{length}"
        )


class Expiry(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that decide whether records may have expired before a range was read.

    Attributes:
        complete_until: Every record that arrived before this time has been read or is not wanted.
        retention_hours: The stream's shortest retention since that time.
        on_data_loss: How to handle a possible loss.
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


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
