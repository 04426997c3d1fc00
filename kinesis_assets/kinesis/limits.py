"""Where reading ends at the latest: a shard's range, and a whole run."""

from __future__ import annotations

from datetime import datetime

import msgspec

from kinesis_assets.errors import InvalidInput

MAX_RECORDS = 1_000_000
MAX_BYTES = 1 << 30
MAX_SECONDS = 300.0
"""Bounds of one shard's range in a run, unless it is told otherwise."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where a shard's range ends at the latest. All hold at once; the first one met ends the range.

    Records are those of users: a KPL aggregate counts as its sub-records.

    Attributes:
        max_records: At most so many records; at least 1.
        max_bytes: Ends before the record that would take the sum of payload bytes above it; the first record
            is always taken.
        max_seconds: Begins no further page so many seconds after the first record.
        until: Ends before the first record that arrived at or after this time (UTC, service's clock).

    Raises:
        InvalidInput: A number is not above 0, or the time has no offset.
    """

    max_records: int | None = None
    max_bytes: int | None = None
    max_seconds: float | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("max_records", "max_bytes", "max_seconds"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InvalidInput(f"{name} must be above 0, not {value}")
        if self.until is not None and self.until.tzinfo is None:
            raise InvalidInput(f"until needs its offset from UTC, as in {self.until.isoformat()}Z")


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """What may still be read by all shards of a run together; None is no bound.

    Attributes:
        records: So many records.
        bytes: So many payload bytes; the record that goes above it is left out, but for the first of a task.
        seconds: No page is begun later than this, from when reading begins.
    """

    records: int | None = None
    bytes: int | None = None
    seconds: float | None = None

    def less(self, records: int, bytes_: int, seconds: float) -> Allowance:
        """What is left of it."""
        return Allowance(
            records=None if self.records is None else max(0, self.records - records),
            bytes=None if self.bytes is None else max(0, self.bytes - bytes_),
            seconds=None if self.seconds is None else max(0.0, self.seconds - seconds),
        )

    def within(self, seconds: float) -> Allowance:
        """The same, for so many seconds at most."""
        return msgspec.structs.replace(
            self, seconds=seconds if self.seconds is None else min(self.seconds, seconds)
        )

    def shares(self, count: int) -> list[Allowance]:
        """The same for at most so many tasks that know nothing of each other.

        The shares add up to it, and none is empty unless there is nothing to share.
        """
        amounts = [amount for amount in (self.records, self.bytes) if amount is not None]
        count = max(1, min([count, *amounts]))
        return [
            Allowance(
                records=_share(self.records, index, count),
                bytes=_share(self.bytes, index, count),
                seconds=self.seconds,
            )
            for index in range(count)
        ]


def _share(amount: int | None, index: int, count: int) -> int | None:
    return None if amount is None else amount // count + (index < amount % count)
