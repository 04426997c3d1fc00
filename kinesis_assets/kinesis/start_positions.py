"""The start position of each shard at the first plan of a stream."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import CallFailed, InvalidInput, ShardListIncomplete
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.stream import CLOCK_STEP

if TYPE_CHECKING:
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import Shard, StreamListing

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FILE = "file://"

DEFAULT = "default"
"""The key of a map that contains the start of the shards that it does not name."""

SHARD_END = "SHARD_END"
"""The start of a shard that another consumer has read to its end, as the Kinesis Client Library writes it."""


class StartPositions(msgspec.Struct, frozen=True):
    """The start position of each shard at the first plan of a stream.

    Attributes:
        default: The start of every shard that is not named. A sequence number belongs to one shard, so it is
            accepted only if there is one such shard.
        ended: The named shards that another consumer has read to their end.
    """

    default: Position = Position(PositionKind.TRIM_HORIZON)
    shards: Mapping[str, Position] = {}
    ended: frozenset[str] = frozenset()

    @classmethod
    def of(cls, start: str | Mapping[str, str]) -> StartPositions:
        """Parse a start in one of its written forms.

        Args:
            start: A position for the whole stream, in the form that `Position.parse` accepts; a map of shard
                ids to positions or `SHARD_END`, in which `default` is for all other shards (TRIM_HORIZON if
                it is omitted); the map as JSON text; or `file://` and the path of a JSON or YAML file with a
                position or map.

        Raises:
            InvalidInput: The start cannot be read or contains an invalid position.
        """
        start = read_start(start)
        if isinstance(start, str):
            return cls(Position.parse(start))
        ended = {key for key, text in start.items() if key != DEFAULT and text.strip().upper() == SHARD_END}
        positions = {key: Position.parse(text) for key, text in start.items() if key not in ended}
        default = positions.pop(DEFAULT, Position(PositionKind.TRIM_HORIZON))
        return cls(default, positions, frozenset(ended))

    def __str__(self) -> str:
        if not self.shards and not self.ended:
            return str(self.default)
        positions = {DEFAULT: self.default, **self.shards, **dict.fromkeys(sorted(self.ended), SHARD_END)}
        return json.dumps({shard_id: str(position) for shard_id, position in positions.items()})

    def frozen(self, listing: StreamListing) -> dict[str, Position]:
        """Return the start of every listed shard, with LATEST as AT_TIMESTAMP of the service's clock.

        `Shard.ends_at` is true of the starts of the shards that another consumer has read to their end.

        Raises:
            InvalidInput: A named shard is not listed, a time is not in the past, a sequence number applies to
                more than one shard, or an open shard is said to be read to its end.
        """
        stream = listing.summary.identity.name
        listed = [shard.shard_id for shard in listing.shards]
        unknown = sorted((self.shards.keys() | self.ended) - set(listed))
        if unknown:
            raise InvalidInput(
                f"stream {stream}: start names {', '.join(unknown)}, which the stream does not list; remove "
                "them from start"
            )
        unnamed = [shard_id for shard_id in listed if shard_id not in self.shards.keys() | self.ended]
        if self.default.sequence_number is not None and len(unnamed) > 1:
            raise InvalidInput(
                f"stream {stream}: start {self.default} belongs to one shard, but applies to {len(unnamed)}; "
                "give each shard its own start"
            )
        return {shard.shard_id: self._frozen(shard, listing) for shard in listing.shards}

    def _frozen(self, shard: Shard, listing: StreamListing) -> Position:
        end = shard.ending_sequence_number
        if shard.shard_id not in self.ended:
            position = without_latest(self.shards.get(shard.shard_id, self.default), listing, shard.shard_id)
            # No record has the number that the service gives to the end.
            return Position.after(end) if end is not None and end == position.sequence_number else position
        if end is None:
            raise InvalidInput(
                f"stream {listing.summary.identity.name}: {shard.shard_id}: start {SHARD_END} means that the "
                "shard was read to its end, but it is open; use the position of its last record that was read"
            )
        return Position.after(end)


def read_start(start: str | Mapping[str, str]) -> str | Mapping[str, str]:
    """Return the position or the map in one of the written forms of `StartPositions.of`."""
    if isinstance(start, str) and start.startswith(_FILE):
        return _loaded(_file_content(start.removeprefix(_FILE)), start)
    if isinstance(start, str) and start.lstrip().startswith("{"):
        return _loaded(start, "start")
    return start


def checked_starts(
    client: StreamClient, starts: StartPositions, listing: StreamListing
) -> dict[str, Position]:
    """Return the start of every listed shard, which the service accepts.

    Raises:
        InvalidInput: As for `StartPositions.frozen` and `try_sequence_numbers`.
        ShardListIncomplete: A second list does not confirm the end of a shard that was read to its end.
    """
    frozen = starts.frozen(listing)
    ended = {shard.shard_id for shard in listing.shards if shard.ends_at(frozen[shard.shard_id])}
    if ended:  # such a shard is never read, so one response is not enough
        listed_again = {shard.shard_id: shard for shard in client.list_shards()}
        for shard_id in sorted(ended):
            if shard_id not in listed_again or not listed_again[shard_id].ends_at(frozen[shard_id]):
                raise ShardListIncomplete(
                    client.stream,
                    f"only one of two lists shows the end of {shard_id}; nothing was changed, run again",
                )
    try_sequence_numbers(client, {key: frozen[key] for key in frozen.keys() - ended})
    return frozen


def try_sequence_numbers(client: StreamClient, starts: Mapping[str, Position]) -> None:
    """Check that the service accepts the sequence numbers, before they are recorded.

    Raises:
        InvalidInput: The service rejects a sequence number for its shard.
    """
    for shard_id, position in starts.items():
        if position.sequence_number is None:
            continue
        try:
            client.shard_iterator(shard_id, position)
        except CallFailed as error:
            if error.code != "InvalidArgumentException":
                raise
            raise InvalidInput(
                f"{shard_id}: Kinesis rejected {position}: {error.reason}. Use a sequence number of "
                "this shard"
            ) from error


def without_latest(position: Position, listing: StreamListing, shard_id: str) -> Position:
    """Return the position of a shard, with LATEST as AT_TIMESTAMP of the service's clock.

    Raises:
        InvalidInput: It is a time that is not in the past.
    """
    now = listing.summary.service_time
    if position.kind is PositionKind.LATEST:
        return Position.at_timestamp(now)
    if position.timestamp is not None and not _EPOCH <= position.timestamp < now + CLOCK_STEP:
        raise InvalidInput(
            f"stream {listing.summary.identity.name}: {shard_id}: start {position} is not in the past; the "
            f"service's clock is at {now}; use an earlier time"
        )
    return position


def _file_content(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"start {_FILE}{path} cannot be read: {error}; correct the path or file"
        ) from error


def _loaded(text: str, where: str) -> str | dict[str, str]:
    import yaml  # noqa: PLC0415  # executors of Spark, which import this module, do not have it

    try:
        try:
            found = json.loads(text)  # YAML does not allow tabs
        except ValueError:
            found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:  # an invalid date is a ValueError
        raise InvalidInput(
            f"{where} is neither JSON nor YAML: {' '.join(str(error).split())}; correct it"
        ) from error
    if isinstance(found, dict) and all(isinstance(part, str) for pair in found.items() for part in pair):
        return found
    if isinstance(found, str) and not found.startswith(_FILE):
        return found
    raise InvalidInput(f"{where} must contain a position or a map of shard ids to positions")
