"""The content of positions files, in every released format.

A file of format 6 is a JSON document like the older ones, so that every release can read its format number.
It holds either all shards or the changes since a file with all shards, its base. A reader therefore reads at
most two files, and a commit writes only what changed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, NamedTuple
from zlib import crc32

import msgspec

from kinesis_assets.table.positions.position_changes import Changes, apply, changes
from kinesis_assets.table.positions.positions import FORMAT, Header, StreamPositions
from kinesis_assets.table.positions.range_stats import check_rows

if TYPE_CHECKING:
    from collections.abc import Callable

_PACKED_SINCE = 4
"""The first format with compressed shards. Files of older formats are plain JSON."""

_MAX_BYTES = 1 << 31
"""The maximum size of the uncompressed content, since memory for it is allocated at once. It is enough for
more shards than a stream may have."""

_LEVEL = 3
"""The zstd level. At level 1 the columns of numbers are a tenth larger; from level 4 on, compression takes
much longer and saves little."""

HEADER_BYTES = 4096
"""The number of leading bytes that contain a file's header; the shards follow it."""

_OTHER_HEADER = "its header does not match the positions in it"

_SHARDS = re.compile(rb',\s*"shards"\s*:')


class ArchiveEnd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The end of the archive of finished shards, see `positions_chain`.

    Attributes:
        newest: The id of the newest segment, which names all others.
        last: The greatest shard id in the archive, compared as text.
    """

    newest: int
    shards: int
    last: str


class CommitRef(NamedTuple):
    """A commit of the chain of positions, and the attempt that made it."""

    commit_id: int
    batch_id: int


class StoredPositions(msgspec.Struct, frozen=True):
    """The content of one positions file.

    Attributes:
        positions: The positions after the commit, without those in the archive.
        down_to_base: The earlier commits, newest first, down to the base inclusive; empty for a base.
        before_base: The commit id before the base's, or before this one's if it is a base; None for the first
            of the chain.
        base: The commit id of the base; None if the file is one.
        repeated: How many shards the files since the base contain that their own commit did not change.
        archive: The end of the archive; None if there is no archive.
    """

    positions: StreamPositions
    down_to_base: tuple[CommitRef, ...] = ()
    before_base: int | None = None
    base: int | None = None
    repeated: int = 0
    archive: ArchiveEnd | None = None

    @property
    def commit_id(self) -> int:
        """The commit id, which names the file."""
        return self.positions.commit_id

    @property
    def previous(self) -> int | None:
        """The commit id of the previous file."""
        return self.positions.previous

    @property
    def arn(self) -> str:
        """The ARN of the stream."""
        return self.positions.arn


class _File(Header, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The JSON document of a file.

    Attributes:
        size: Uncompressed size of `shards`, in bytes.
        shards: The complete positions with their header, as JSON; or with a base, `_Increment` as
            MessagePack. Compressed with zstd, in base64.
        check: CRC-32 of the uncompressed `_Increment`, without which a damaged number would go unnoticed.
            None without a base.
    """

    size: Annotated[int, msgspec.Meta(ge=0, le=_MAX_BYTES)]
    shards: bytes
    archive: ArchiveEnd | None = None
    check: int | None = None


class _Increment(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The content of a file with a base. It is stored as an array, so the order of the fields is fixed.

    For the fields that are not described here, see `StoredPositions`.

    Attributes:
        positions: The positions after the commit, without `shards`, `added` and `predecessors`.
        changes: The changed shards and the ranges whose rows the commit added.
    """

    positions: StreamPositions
    changes: Changes
    down_to_base: tuple[tuple[int, int], ...]
    before_base: int | None
    repeated: int


class _Format(msgspec.Struct):
    format: int


def encode(positions: StreamPositions, archive: ArchiveEnd | None = None) -> bytes:
    """Encode a file with all shards."""
    whole = msgspec.json.encode(positions)
    header = positions.header
    file = _File(
        header.format,
        header.identity,
        header.commit_id,
        header.previous,
        size=len(whole),
        shards=compress(whole),
        archive=archive,
    )
    return msgspec.json.encode(file)


def encode_changes(stored: StoredPositions, base: StreamPositions) -> bytes:
    """Encode a file with the changes since its base.

    A shard that was only read further takes a few numbers, see `position_changes`.
    """
    positions = stored.positions
    increment = _Increment(
        positions=msgspec.structs.replace(positions, shards={}, added={}, predecessors=()),
        changes=changes(base.shards, positions.shards, positions.added),
        down_to_base=stored.down_to_base,
        before_base=stored.before_base,
        repeated=stored.repeated,
    )
    whole = msgspec.msgpack.encode(increment)
    file = _File(
        positions.format,
        positions.identity,
        positions.commit_id,
        positions.previous,
        base=base.commit_id,
        size=len(whole),
        shards=compress(whole),
        archive=stored.archive,
        check=crc32(whole),
    )
    return msgspec.json.encode(file)


def read(content: bytes, base_at: Callable[[int], StreamPositions]) -> StoredPositions:
    """Decode a file that `encode` or `encode_changes` of this or an older release wrote.

    Args:
        base_at: Returns the positions of a base by its commit id.

    Raises:
        msgspec.MsgspecError: The content is damaged, is no positions file, or has a newer format.
    """
    found = msgspec.json.decode(content, type=_Format).format
    check_format(found)
    if found < _PACKED_SINCE:
        positions = _decode_whole(content)
        return StoredPositions(positions, before_base=positions.previous)
    file = msgspec.json.decode(content, type=_File)
    whole = decompress(file.shards, file.size)
    if file.base is not None:
        return _with_changes(file, file.base, whole, base_at)
    positions = _decode_whole(whole)
    if positions.header != Header(file.format, file.identity, file.commit_id, file.previous):
        raise msgspec.ValidationError(_OTHER_HEADER)
    return StoredPositions(positions, before_base=positions.previous, archive=file.archive)


def _decode_whole(content: bytes) -> StreamPositions:
    positions = msgspec.json.decode(content, type=StreamPositions)
    check_rows(positions.added)
    return positions


def _with_changes(
    file: _File, base_id: int, whole: bytes, base_at: Callable[[int], StreamPositions]
) -> StoredPositions:
    if crc32(whole) != file.check:
        raise msgspec.ValidationError("its compressed content is damaged")
    increment = msgspec.msgpack.decode(whole, type=_Increment)
    base = base_at(base_id)
    if base.identity != file.identity:
        raise msgspec.ValidationError("its base is of another stream")
    shards, added = apply(base.shards, increment.changes)
    check_rows(added)
    positions = msgspec.structs.replace(
        increment.positions, shards=shards, added=added, predecessors=base.predecessors
    )
    if positions.header != Header(file.format, file.identity, file.commit_id, file.previous):
        raise msgspec.ValidationError(_OTHER_HEADER)
    return StoredPositions(
        positions,
        down_to_base=tuple(CommitRef(*each) for each in increment.down_to_base),
        before_base=increment.before_base,
        base=base_id,
        repeated=increment.repeated,
        archive=file.archive,
    )


def decode_header(first_bytes: bytes) -> Header | None:
    """Decode the header from the first bytes of a file; return None if they do not contain all of it.

    Raises:
        msgspec.MsgspecError: The content is no positions file or has a newer format.
    """
    found = _SHARDS.search(first_bytes)
    if found is None:
        return None
    return decode_whole_header(first_bytes[: found.start()] + b"}")


def decode_whole_header(content: bytes) -> Header:
    """Decode the header from the whole content of a file. Raises the errors of `decode_header`."""
    header = msgspec.json.decode(content, type=Header)
    check_format(header.format)
    return header


def check_format(found: int) -> None:
    """Check that this release can read a format.

    Raises:
        msgspec.ValidationError: It cannot.
    """
    if not 1 <= found <= FORMAT:
        raise msgspec.ValidationError(f"its format is {found}; this release reads formats up to {FORMAT}")


def compress(whole: bytes) -> bytes:
    """Compress with zstd."""
    import pyarrow as pa  # noqa: PLC0415  # loading definitions does not need it

    packed: bytes = pa.Codec("zstd", compression_level=_LEVEL).compress(whole, asbytes=True)
    return packed


def decompress(packed: bytes, size: int) -> bytes:
    """Decompress what `compress` returned.

    Raises:
        msgspec.ValidationError: The content is damaged, or has another uncompressed size in bytes.
    """
    import pyarrow as pa  # noqa: PLC0415  # as above

    try:
        whole: bytes = pa.decompress(packed, decompressed_size=size, codec="zstd", asbytes=True)
    except (OSError, ValueError) as error:
        raise msgspec.ValidationError(f"its compressed content cannot be decompressed: {error}") from error
    return whole
