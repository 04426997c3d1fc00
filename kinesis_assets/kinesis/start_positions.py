"""The start position of each shard at the first plan of a stream."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import yaml

from kinesis_assets.errors import CallFailed, InvalidInput
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.stream import CLOCK_STEP

if TYPE_CHECKING:
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import StreamListing

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DEFAULT = "default"
_FILE = "file://"


class StartPositions(msgspec.Struct, frozen=True):
    """The start position of each shard at the first plan of a stream.

    Attributes:
        default: The start of every shard that is not named. A sequence number belongs to one shard, so it is
            accepted only if there is one such shard.
        shards: The starts of named shards, by shard id.
    """

    default: Position = Position(PositionKind.TRIM_HORIZON)
    shards: Mapping[str, Position] = {}

    @classmethod
    def of(cls, start: str | Mapping[str, str]) -> StartPositions:
        """Parse a start in one of its written forms.

        Args:
            start: A position for the whole stream, in the form that `Position.parse` accepts; a map of shard
                ids to positions, in which `default` is for all other shards (TRIM_HORIZON if it is omitted);
                the map as JSON text; or `file://` and the path of a JSON or YAML file with a position or map.

        Raises:
            InvalidInput: The start cannot be read or contains an invalid position.
        """
        if isinstance(start, str) and start.startswith(_FILE):
            start = _loaded(_file_content(start.removeprefix(_FILE)), start)
        elif isinstance(start, str) and start.lstrip().startswith("{"):
            start = _loaded(start, "start")
        if isinstance(start, str):
            return cls(Position.parse(start))
        positions = {shard_id: Position.parse(text) for shard_id, text in start.items()}
        default = positions.pop(_DEFAULT, Position(PositionKind.TRIM_HORIZON))
        return cls(default, positions)

    def __str__(self) -> str:
        if not self.shards:
            return str(self.default)
        positions = {_DEFAULT: self.default, **self.shards}
        return json.dumps({shard_id: str(position) for shard_id, position in positions.items()})

    def frozen(self, listing: StreamListing) -> dict[str, Position]:
        """Return the start of every listed shard, with LATEST as AT_TIMESTAMP of the service's clock.

        Raises:
            InvalidInput: A named shard is not listed, a time is not in the past, or a sequence number applies
                to more than one shard.
        """
        stream = listing.summary.identity.name
        listed = [shard.shard_id for shard in listing.shards]
        unknown = sorted(self.shards.keys() - set(listed))
        if unknown:
            raise InvalidInput(
                f"stream {stream}: start names {', '.join(unknown)}, which the stream does not list; remove "
                "them from start"
            )
        unnamed = [shard_id for shard_id in listed if shard_id not in self.shards]
        if self.default.sequence_number is not None and len(unnamed) > 1:
            raise InvalidInput(
                f"stream {stream}: start {self.default} belongs to one shard, but applies to {len(unnamed)}; "
                "give each shard its own start"
            )
        return {
            shard_id: _frozen(self.shards.get(shard_id, self.default), listing, shard_id)
            for shard_id in listed
        }


def try_sequence_numbers(client: StreamClient, starts: Mapping[str, Position]) -> None:
    """Check that the service accepts the sequence numbers, before they are recorded.

    Raises:
        InvalidInput: The service rejects a sequence number for its shard.
        CallFailed: A call to the service failed.
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


def _frozen(position: Position, listing: StreamListing, shard_id: str) -> Position:
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


def _json_or_yaml(text: str) -> object:
    try:
        return json.loads(text)  # YAML does not allow tabs
    except ValueError:
        return yaml.safe_load(text)


def _loaded(text: str, where: str) -> str | dict[str, str]:
    try:
        found = _json_or_yaml(text)
    except (yaml.YAMLError, ValueError) as error:  # an invalid date is a ValueError
        raise InvalidInput(
            f"{where} is neither JSON nor YAML: {' '.join(str(error).split())}; correct it"
        ) from error
    if isinstance(found, dict) and all(isinstance(part, str) for pair in found.items() for part in pair):
        return found
    if isinstance(found, str) and not found.startswith(_FILE):
        return found
    raise InvalidInput(f"{where} must contain a position or a map of shard ids to positions")
