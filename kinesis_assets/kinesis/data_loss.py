"""When records may have expired unread, and what is told of it.

No loss by retention is possible while everything that arrived up to a moment is read, and that moment is
younger than the retention. After that it is possible, on an idle shard too, and the service may go on past
trimmed records without a word.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from kinesis_assets.kinesis.position import Position


class OnDataLoss(StrEnum):
    """What a run does where records may have been lost."""

    FAIL = "fail"
    """The shard fails, and its position stays."""
    CONTINUE = "continue"
    """It is read on from what there is; the gap is recorded with the positions."""


class Gap(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A stretch of a shard that may lack records, and that someone chose to go on after.

    Attributes:
        after: The shard's position before it.
        since: Everything that arrived before is in the table; None if that is not known.
        next_sequence_number: The first record after it; None where there was none.
        until: Arrival of that record; where there was none, when that was seen.
    """

    after: Position
    since: datetime | None
    next_sequence_number: str | None
    until: datetime

    def is_again(self, recorded: Gap | None) -> bool:
        """Whether it is one that was recorded, seen once more before the position moved past it."""
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
            f"read to {self.after}, whole up to {since}; first available then: {found}, {_text(self.until)}"
            f"{length}"
        )


class Expiry(msgspec.Struct, frozen=True, kw_only=True):
    """What tells whether records of a range may have expired before it was read.

    Attributes:
        complete_until: Every record that arrived before this is read, or is not wanted.
        retention_hours: The lowest that was seen since then.
        on_data_loss: What to do then.
        last_gap: The last one that is recorded; it is neither told nor recorded again.
    """

    complete_until: datetime
    retention_hours: int
    on_data_loss: OnDataLoss
    last_gap: Gap | None = None

    @property
    def retention(self) -> timedelta:
        """How long a record is there."""
        return timedelta(hours=self.retention_hours)


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
