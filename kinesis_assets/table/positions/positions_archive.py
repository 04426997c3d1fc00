"""The archive of finished shards that their stream no longer lists.

It consists of segments, which are immutable files. A segment holds some hundred shards and names all earlier
segments; a positions file names the newest segment. Archived shards therefore add no cost to commits and
runs. For a shard that is in the positions as well, the positions are valid; for a shard in two segments, the
newer segment is.
"""

from __future__ import annotations

from typing import Annotated
from zlib import crc32

import msgspec

from kinesis_assets.kinesis.stream import StreamIdentity
from kinesis_assets.table.positions.positions import FORMAT, ShardPosition
from kinesis_assets.table.positions.positions_file import check_format, compress, decompress

ARCHIVE_FOLDER = "_kinesis/archive"

_MAX_BYTES = 1 << 31


class Segment(msgspec.Struct, frozen=True):
    """A part of the archive.

    Attributes:
        identity: The stream.
        segment_id: Names the file.
        earlier: The ids of all earlier segments, oldest first.
        shards: The finished shards by shard id.
    """

    identity: StreamIdentity
    segment_id: int
    earlier: tuple[int, ...]
    shards: dict[str, ShardPosition]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    identity: StreamIdentity
    segment_id: int = msgspec.field(name="token")
    earlier: tuple[int, ...]
    size: Annotated[int, msgspec.Meta(ge=0, le=_MAX_BYTES)]
    shards: bytes
    check: int


class _Format(msgspec.Struct):
    format: int


def encode(segment: Segment) -> bytes:
    """Encode a segment as JSON, with the shards compressed as in a positions file."""
    whole = msgspec.json.encode(segment.shards)
    file = _File(
        FORMAT,
        segment.identity,
        segment.segment_id,
        segment.earlier,
        len(whole),
        compress(whole),
        crc32(whole),
    )
    return msgspec.json.encode(file)


def decode(content: bytes) -> Segment:
    """Decode what `encode` returned.

    Raises:
        msgspec.MsgspecError: The content is damaged, is no segment, or has a newer format.
    """
    check_format(msgspec.json.decode(content, type=_Format).format)
    file = msgspec.json.decode(content, type=_File)
    whole = decompress(file.shards, file.size)
    if crc32(whole) != file.check:
        raise msgspec.ValidationError("its compressed content is damaged")
    shards = msgspec.json.decode(whole, type=dict[str, ShardPosition])
    return Segment(file.identity, file.segment_id, file.earlier, shards)
