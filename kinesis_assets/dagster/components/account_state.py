"""The streams of an account as they were last listed: the state of `KinesisAccountComponent`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import StreamsNotListed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kinesis_assets.kinesis.account import ListedStream

REFRESH = "run `dg utils refresh-defs-state`"


class KnownStream(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stream that was listed.

    Attributes:
        name: Its name.
        arn: Its ARN.
        missing_since: The first list without the stream, UTC; None if it is in the last one.
    """

    name: str
    arn: str
    missing_since: datetime | None = None


class AccountState(msgspec.Struct, frozen=True):
    """Every stream that was ever listed with the same settings."""

    streams: list[KnownStream]

    @classmethod
    def parse(cls, stored: bytes | None) -> AccountState:
        """Read what `encode` returned.

        Args:
            stored: The state; None if there is none.

        Raises:
            StreamsNotListed: There is no state, or it cannot be read.
        """
        if stored is None:
            raise StreamsNotListed(f"the streams of the account were not listed yet; {REFRESH}")
        try:
            return msgspec.json.decode(stored, type=cls)
        except msgspec.MsgspecError as error:
            raise StreamsNotListed(
                f"the list of the account's streams is damaged ({error}); {REFRESH}"
            ) from None

    def encode(self) -> bytes:
        """Return the state as JSON."""
        return msgspec.json.encode(self)


def refreshed(before: AccountState | None, listed: Iterable[ListedStream], now: datetime) -> AccountState:
    """Return the state after a new list. A stream that is missing in it stays in the state.

    Args:
        before: The previous state.
        listed: The streams that the service has now and that match the settings.
        now: The time of the list.

    Raises:
        StreamsNotListed: The list contradicts the previous state.
    """
    known = {} if before is None else {stream.name: stream for stream in before.streams}
    present = {stream.name: KnownStream(stream.name, stream.arn) for stream in listed}
    if not present:
        raise StreamsNotListed(
            "no stream of the account matches stream_names and stream_tags; check the region and the "
            "credentials"
        )
    for name, stream in present.items():
        if name in known and known[name].arn != stream.arn:
            raise StreamsNotListed(
                f"stream {name} was {known[name].arn} and is now {stream.arn}; check the region and the "
                "credentials, or remove the stored list"
            )
    missing = [
        msgspec.structs.replace(stream, missing_since=stream.missing_since or now)
        for name, stream in known.items()
        if name not in present
    ]
    return AccountState(sorted([*present.values(), *missing], key=lambda stream: stream.name))
