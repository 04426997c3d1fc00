"""What was done to rows behind the positions: holes filled, old rows expired.

It is kept apart from the positions, so that neither moves the other. Each change is an immutable file that
the table's log points at, as it points at the positions; who changes the past commits through the snapshot
that was looked at, and of two at once one begins again.
"""

from __future__ import annotations

from datetime import date, datetime

import msgspec

from kinesis_assets.table.positions import Landed

FORMAT = 2
"""Raised with any change that an older version must not read. Files of format 1 name no stream."""


class Past(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One change, and what all changes up to it come to.

    Attributes:
        format: `FORMAT` of the writer.
        token: Names this file; the table's log points at it.
        previous: The token before it; None for the first.
        batch_id: The attempt that made the commit; rows that it filled in carry it.
        at: When (this machine's clock).
        by: Who: a Dagster run's id, or a person.
        floor: No row with an arrival date before this day (UTC) is kept, or ever filled in again.
        filled: Rows that this commit filled in, by shard id.
        rewound: Shards whose rows this commit took out, since their positions were set back.
        arn: The stream's, which is written into the file with each commit; None in files of format 1.
    """

    format: int
    token: int
    previous: int | None
    batch_id: int
    at: datetime
    by: str | None = None
    floor: date | None = None
    filled: dict[str, Landed] = {}
    rewound: tuple[str, ...] = ()
    arn: str | None = None


def encode(past: Past) -> bytes:
    """The file's content."""
    return msgspec.json.format(msgspec.json.encode(past), indent=1)


def decode(content: bytes) -> Past:
    """Read what `encode` wrote.

    Raises:
        msgspec.MsgspecError: It is something else, or of a newer format.
    """
    past = msgspec.json.decode(content, type=Past)
    if past.format > FORMAT:
        raise msgspec.ValidationError(f"format {past.format}, and this version reads up to {FORMAT}")
    return past
