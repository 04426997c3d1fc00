"""The archive: shards that were read to their end and that their stream no longer lists.

It is made of segments, immutable files beside the positions files. A segment is written once, holds some
hundred shards, and names all segments before it; positions files name the newest one. So shards in the
archive cost no commit and no run anything. A shard that is in the positions too is as it is there; one that
is in two segments, as it is in the newer one.
"""

from __future__ import annotations

from typing import Annotated
from zlib import crc32

import msgspec

from kinesis_assets.kinesis.stream import StreamIdentity
from kinesis_assets.table.positions import FORMAT, ShardPosition
from kinesis_assets.table.positions_file import compressed, decompressed, understood

ARCHIVE_FOLDER = "_kinesis/archive"

_MOST_BYTES = 1 << 31


class Segment(msgspec.Struct, frozen=True):
    """A part of the archive.

    Attributes:
        identity: Which stream.
        token: Names this file.
        earlier: The tokens of all segments before it, oldest first.
        shards: By shard id; each is finished.
    """

    identity: StreamIdentity
    token: int
    earlier: tuple[int, ...]
    shards: dict[str, ShardPosition]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    identity: StreamIdentity
    token: int
    earlier: tuple[int, ...]
    size: Annotated[int, msgspec.Meta(ge=0, le=_MOST_BYTES)]
    shards: bytes
    check: int


class _Format(msgspec.Struct):
    format: int


def encode(segment: Segment) -> bytes:
    """The file's content: JSON, with the shards packed as in a positions file."""
    whole = msgspec.json.encode(segment.shards)
    file = _File(
        FORMAT,
        segment.identity,
        segment.token,
        segment.earlier,
        len(whole),
        compressed(whole),
        crc32(whole),
    )
    return msgspec.json.encode(file)


def decode(content: bytes) -> Segment:
    """Read what `encode` wrote.

    Raises:
        msgspec.MsgspecError: It is something else, or of a newer format.
    """
    understood(msgspec.json.decode(content, type=_Format).format)
    file = msgspec.json.decode(content, type=_File)
    whole = decompressed(file.shards, file.size)
    if crc32(whole) != file.check:
        raise msgspec.ValidationError("what is packed in it is damaged")
    shards = msgspec.json.decode(whole, type=dict[str, ShardPosition])
    return Segment(file.identity, file.token, file.earlier, shards)
