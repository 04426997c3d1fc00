"""What was done to rows behind the positions: holes filled, old rows expired.

It is kept apart from the positions, so that neither moves the other. Each change is an immutable file that
the table's log points at, as it points at the positions; who changes the past commits through the snapshot
that was looked at, and of two at once one begins again.
"""

from __future__ import annotations

from datetime import date, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.commit_ids import draw_token
from kinesis_assets.table.positions import Landed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.kinesis.data_loss import Gap

FORMAT = 2
"""Raised with any change that an older version must not read. Files of format 1 name no stream."""


class ClearedGap(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A gap that a replay filled, by what names it, see `Gap`."""

    after: Position
    next_sequence_number: str | None = None

    @classmethod
    def of(cls, gap: Gap) -> ClearedGap:
        """What names a gap."""
        return cls(gap.after, gap.next_sequence_number)


class Past(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One change, and what all changes up to it come to.

    Attributes:
        format: `FORMAT` of the writer.
        token: Names this file; the table's log points at it.
        previous: The token before it; None for the first.
        batch_id: The attempt that made the commit; rows that it filled in carry it.
        at: When.
        by: Who: a Dagster run's id, or a person.
        floor: No row with an arrival date before this day (UTC) is kept, or ever filled in again.
        filled: Rows that this commit filled in, by shard id.
        rewound: Shards whose rows this commit took out, since their positions were set back.
        lowered_from: The floor before, if this commit lowered it. Versions that do not know the field refuse
            the entry.
        cleared: The gaps of the positions that replays have filled, by shard id.
        accepted: Restores and overwrites up to this version of the table were accepted by hand.
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
    lowered_from: date | None = None
    cleared: dict[str, tuple[ClearedGap, ...]] = {}
    accepted: int | None = None
    arn: str | None = None

    def has_cleared(self, shard_id: str, gap: Gap) -> bool:
        """Whether a replay has filled a gap of the positions."""
        return ClearedGap.of(gap) in self.cleared.get(shard_id, ())


def following(
    before: Past | None,
    *,
    batch_id: int,
    at: datetime,
    by: str | None,
    floor: date | None = None,
    filled: Mapping[str, Landed] = MappingProxyType({}),
    rewound: tuple[str, ...] = (),
    cleared: dict[str, tuple[ClearedGap, ...]] | None = None,
    accepted: int | None = None,
    lowered_from: date | None = None,
) -> Past:
    """The entry after another one, with what all changes up to it come to.

    Args:
        before: The entry that the table has; None if it has none.
        batch_id: The attempt's.
        at: When (this machine's clock).
        by: Who.
        floor: See `Past`; None keeps that of the entry before, likewise for `cleared` and `accepted`.
        filled: See `Past`.
        rewound: See `Past`.
        cleared: See `Past`.
        accepted: See `Past`.
        lowered_from: See `Past`.
    """
    token = draw_token()
    base = before or Past(format=FORMAT, token=token, previous=None, batch_id=batch_id, at=at)
    return Past(
        format=FORMAT,
        token=token,
        previous=None if before is None else before.token,
        batch_id=batch_id,
        at=at,
        by=by,
        floor=base.floor if floor is None else floor,
        filled=dict(filled),
        rewound=rewound,
        cleared=base.cleared if cleared is None else cleared,
        accepted=base.accepted if accepted is None else accepted,
        lowered_from=lowered_from,
    )


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
