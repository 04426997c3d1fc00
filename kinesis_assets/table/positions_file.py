"""Positions files: what is in one, in every format that was ever released.

A file of format 6 is a JSON document as those before it, so that any version finds its format. It holds
either every shard, or the changes since such a file, its base. So whoever reads positions reads two files at
most, and a commit writes what changed and not what there is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, NamedTuple
from zlib import crc32

import msgspec

from kinesis_assets.table.position_changes import Changes, apply, changes
from kinesis_assets.table.positions import FORMAT, Header, StreamPositions

if TYPE_CHECKING:
    from collections.abc import Callable

_PACKED_SINCE = 4
"""Files of older formats are plain JSON."""

_MOST_BYTES = 1 << 31
"""Of what is packed in a file: more shards than a stream may have. Memory for it is taken at once."""

_LEVEL = 3
"""Of zstd. At 1 the columns of numbers take a tenth more; from 4 on it takes much longer for little."""

HEADER_BYTES = 4096
"""The first bytes of a file, which hold its header: the shards come after it."""

_OTHER_HEADER = "its header is not that of the positions packed in it"

_SHARDS = re.compile(rb',\s*"shards"\s*:')


class ArchiveEnd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the archive of finished shards ends, see `positions_archive`.

    Attributes:
        newest: The token of its newest segment, which names all others.
        shards: How many shards it holds.
        last: The greatest of their ids, as text: a shard id after it is not in the archive.
    """

    newest: int
    shards: int
    last: str


class CommitId(NamedTuple):
    """A commit of a chain.

    Attributes:
        token: Names its positions file.
        batch_id: The attempt that made it.
    """

    token: int
    batch_id: int


class Stored(msgspec.Struct, frozen=True):
    """The content of one positions file.

    Attributes:
        positions: As the commit left them, without those in the archive.
        behind: The commits before it, newest first, down to its base and with it; none if it is a base.
        before: The token before the last of these, or before this one; None for the first of the chain.
        base: The token of its base; None if it is one.
        carried: Changes that were written again by the commits since the base, in shards.
        archive: Where the archive ends; None if there is none.
    """

    positions: StreamPositions
    behind: tuple[CommitId, ...] = ()
    before: int | None = None
    base: int | None = None
    carried: int = 0
    archive: ArchiveEnd | None = None


class _File(Header, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A file as it is written.

    Attributes:
        size: Bytes of what is packed in `shards`, unpacked.
        shards: By zstd, in base64: the whole of the positions as JSON, header included; or, with a base,
            `_Increment` as MessagePack.
        archive: See `Stored`.
        check: CRC-32 of what is packed with a base: nothing else would reveal a wrong number.
    """

    size: Annotated[int, msgspec.Meta(ge=0, le=_MOST_BYTES)]
    shards: bytes
    archive: ArchiveEnd | None = None
    check: int | None = None


class _Increment(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a file with a base holds.

    Attributes:
        positions: What the commit left, without its shards, what it wrote, and the predecessors of the base.
        changes: The shards, and what it wrote.
        behind: See `Stored`, likewise below.
    """

    positions: StreamPositions
    changes: Changes
    behind: tuple[tuple[int, int], ...]
    before: int | None
    carried: int


class _Format(msgspec.Struct):
    format: int


def encode(positions: StreamPositions, archive: ArchiveEnd | None = None) -> bytes:
    """A file that holds everything. `kinesis-assets positions --json` prints the present one."""
    whole = msgspec.json.encode(positions)
    header = positions.header
    file = _File(
        header.format,
        header.identity,
        header.token,
        header.previous,
        size=len(whole),
        shards=compressed(whole),
        archive=archive,
    )
    return msgspec.json.encode(file)


def encode_changes(stored: Stored, base: StreamPositions) -> bytes:
    """A file that holds the changes since its base.

    Args:
        stored: What is to be read from it.
        base: The positions of its base.
    """
    positions = stored.positions
    increment = _Increment(
        positions=msgspec.structs.replace(positions, shards={}, landed={}, predecessors=()),
        changes=changes(base.shards, positions.shards, positions.landed),
        behind=stored.behind,
        before=stored.before,
        carried=stored.carried,
    )
    whole = msgspec.msgpack.encode(increment)
    file = _File(
        positions.format,
        positions.identity,
        positions.token,
        positions.previous,
        base=base.token,
        size=len(whole),
        shards=compressed(whole),
        archive=stored.archive,
        check=crc32(whole),
    )
    return msgspec.json.encode(file)


def decode(content: bytes) -> StreamPositions:
    """Read a file that holds everything, whatever version wrote it. Raises as `read`."""

    def base_at(token: int) -> StreamPositions:
        raise msgspec.ValidationError(f"it holds the changes since {token}, not everything")

    return read(content, base_at).positions


def read(content: bytes, base_at: Callable[[int], StreamPositions]) -> Stored:
    """Read what `encode` or `encode_changes` wrote, now or in an older version.

    Args:
        content: The file's.
        base_at: Gives the positions of the base of a token.

    Raises:
        msgspec.MsgspecError: It is something else, or of a newer format.
    """
    found = msgspec.json.decode(content, type=_Format).format
    understood(found)
    if found < _PACKED_SINCE:
        positions = msgspec.json.decode(content, type=StreamPositions)
        return Stored(positions, before=positions.previous)
    file = msgspec.json.decode(content, type=_File)
    whole = decompressed(file.shards, file.size)
    if file.base is not None:
        return _with_changes(file, file.base, whole, base_at)
    positions = msgspec.json.decode(whole, type=StreamPositions)
    if positions.header != Header(file.format, file.identity, file.token, file.previous):
        raise msgspec.ValidationError(_OTHER_HEADER)
    return Stored(positions, before=positions.previous, archive=file.archive)


def _with_changes(
    file: _File, base_token: int, whole: bytes, base_at: Callable[[int], StreamPositions]
) -> Stored:
    if crc32(whole) != file.check:
        raise msgspec.ValidationError("what is packed in it is damaged")
    increment = msgspec.msgpack.decode(whole, type=_Increment)
    base = base_at(base_token)
    if base.identity != file.identity:
        raise msgspec.ValidationError("its base is of another stream")
    shards, landed = apply(base.shards, increment.changes)
    positions = msgspec.structs.replace(
        increment.positions, shards=shards, landed=landed, predecessors=base.predecessors
    )
    if positions.header != Header(file.format, file.identity, file.token, file.previous):
        raise msgspec.ValidationError(_OTHER_HEADER)
    return Stored(
        positions,
        behind=tuple(CommitId(*each) for each in increment.behind),
        before=increment.before,
        base=base_token,
        carried=increment.carried,
        archive=file.archive,
    )


def decode_header(beginning: bytes) -> Header | None:
    """The header of a file, of any version, from its first bytes; None if it is not all there.

    Raises:
        msgspec.MsgspecError: It is something else, or of a newer format.
    """
    found = _SHARDS.search(beginning)
    if found is None:
        return None
    return decode_whole_header(beginning[: found.start()] + b"}")


def decode_whole_header(content: bytes) -> Header:
    """The header of a file, from all of it. Raises as `decode_header`."""
    header = msgspec.json.decode(content, type=Header)
    understood(header.format)
    return header


def understood(found: int) -> None:
    """See that a format is one that this version reads.

    Raises:
        msgspec.ValidationError: It is not.
    """
    if not 1 <= found <= FORMAT:
        raise msgspec.ValidationError(f"format {found}, and this version reads up to {FORMAT}")


def compressed(whole: bytes) -> bytes:
    """By zstd."""
    import pyarrow as pa  # noqa: PLC0415  # definitions write nothing

    packed: bytes = pa.Codec("zstd", compression_level=_LEVEL).compress(whole, asbytes=True)
    return packed


def decompressed(packed: bytes, size: int) -> bytes:
    """What `compressed` was given.

    Raises:
        msgspec.ValidationError: It has not that size, or is damaged.
    """
    import pyarrow as pa  # noqa: PLC0415  # as above

    try:
        whole: bytes = pa.decompress(packed, decompressed_size=size, codec="zstd", asbytes=True)
    except (OSError, ValueError) as error:
        raise msgspec.ValidationError(f"what is packed in it cannot be unpacked: {error}") from error
    return whole
