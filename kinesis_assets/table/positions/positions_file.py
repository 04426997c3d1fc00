"""The content of positions files, in every released format.

A file of format 6 is a JSON document like the older ones, so that every release can read its format number.
It holds either all shards or the changes since a file with all shards, its base. A reader therefore reads at
most two files, and a commit writes only what changed.

Most changes are alike: more of a shard was read, so its sequence number and its times are somewhat later.
These are stored as columns of numbers, relative to the base. A shard with any other change is stored
completely. The bytes of a column of large integers, such as sequence numbers, compress well.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, NamedTuple
from zlib import crc32

import msgspec

from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.positions.positions import FORMAT, Header, ShardPosition, StreamPositions
from kinesis_assets.table.positions.range_stats import RangeStats, check_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_PACKED_SINCE = 4
"""The first format with compressed shards. Files of older formats are plain JSON."""

MAX_BYTES = 1 << 31
"""The maximum size of the uncompressed content, since memory for it is allocated at once. It is enough for
more shards than a stream may have."""

_LEVEL = 3
"""The zstd level. At level 1 the columns of numbers are a tenth larger; from level 4 on, compression takes
much longer and saves little."""

HEADER_BYTES = 4096
"""The number of leading bytes that contain a file's header; the shards follow it."""

_MAX_WIDTH = 64
"""Maximum bytes of a difference: a sequence number has up to 129 digits, which are 429 bits."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

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


class Column(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A column of integers.

    Attributes:
        lowest: The smallest number, as decimal text.
        width: Bytes of each number's difference from `lowest`.
        packed: The differences: the lowest byte of each number, then the next byte of each, and so on.
            Similar bytes are thus adjacent.
    """

    lowest: str
    width: int
    packed: bytes


class Changes(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The shards that differ from the base, and the ranges whose rows the commit added.

    It is stored as an array, so the order of the fields is fixed.

    Attributes:
        moved: Number of shards in `columns`: those that were read further and have no other change.
        columns: Their indexes among the base's shards, then the numbers of `_encode_moved`.
        whole: The other changed shards, by shard id.
        removed: Indexes of the base's shards that have been moved to the archive.
        added: Number of ranges in `added_columns`: those of shards in the base that start after a record.
        added_columns: The indexes of their shards, then the numbers of `_encode_added`.
        added_whole: The other ranges, by shard id.
    """

    moved: int
    columns: tuple[Column, ...]
    whole: dict[str, ShardPosition]
    removed: tuple[int, ...]
    added: int
    added_columns: tuple[Column, ...]
    added_whole: dict[str, RangeStats]


class _File(Header, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The JSON document of a file.

    Attributes:
        size: Uncompressed size of `shards`, in bytes.
        shards: The complete positions with their header, as JSON; or with a base, `_Increment` as
            MessagePack. Compressed with zstd, in base64.
        check: CRC-32 of the uncompressed `_Increment`, without which a damaged number would go unnoticed.
            None without a base.
    """

    size: Annotated[int, msgspec.Meta(ge=0, le=MAX_BYTES)]
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
    return _encode(positions, msgspec.json.encode(positions), archive)


def encode_changes(stored: StoredPositions, base: StreamPositions) -> bytes:
    """Encode a file with the changes since its base.

    A shard that was only read further takes a few numbers, see `changes`.
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
    return _encode(positions, whole, stored.archive, base=base.commit_id, check=crc32(whole))


def _encode(
    positions: StreamPositions,
    whole: bytes,
    archive: ArchiveEnd | None,
    *,
    base: int | None = None,
    check: int | None = None,
) -> bytes:
    """Encode a file with the header of some positions. For the other arguments see `_File`."""
    file = _File(
        positions.format,
        positions.identity,
        positions.commit_id,
        positions.previous,
        base=base,
        size=len(whole),
        shards=compress(whole),
        archive=archive,
        check=check,
    )
    return msgspec.json.encode(file)


def read(content: bytes, base_at: Callable[[int], StreamPositions]) -> StoredPositions:
    """Decode a file that `encode` or `encode_changes` of this or an older release wrote.

    Args:
        base_at: Returns the positions of a base by its commit id.

    Raises:
        msgspec.MsgspecError: The content is damaged, is no positions file, or has a newer format.
    """
    if format_of(content) < _PACKED_SINCE:
        return _decode_whole(content)
    file = msgspec.json.decode(content, type=_File)
    whole = decompress(file.shards, file.size)
    if file.base is None:
        stored = _decode_whole(whole, file.archive)
    else:
        stored = _with_changes(file, file.base, whole, base_at)
    if stored.positions.header != Header(file.format, file.identity, file.commit_id, file.previous):
        raise msgspec.ValidationError("its header does not match the positions in it")
    return stored


def _decode_whole(content: bytes, archive: ArchiveEnd | None = None) -> StoredPositions:
    positions = msgspec.json.decode(content, type=StreamPositions)
    check_rows(positions.added)
    return StoredPositions(positions, before_base=positions.previous, archive=archive)


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
    format_of(content)
    return msgspec.json.decode(content, type=Header)


def format_of(content: bytes) -> int:
    """Return the format of a file of the chain or of its archive.

    Raises:
        msgspec.MsgspecError: The content is no such file, or this release cannot read its format.
    """
    found = msgspec.json.decode(content, type=_Format).format
    if not 1 <= found <= FORMAT:
        raise msgspec.ValidationError(f"its format is {found}; this release reads formats up to {FORMAT}")
    return found


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


def changes(
    base: Mapping[str, ShardPosition], shards: Mapping[str, ShardPosition], added: Mapping[str, RangeStats]
) -> Changes:
    """Encode the differences of the shards after a commit from a base; `apply` decodes them.

    The ranges are those whose rows the commit added.
    """
    moved: list[tuple[int, ...]] = []
    ranges: list[tuple[int, ...]] = []
    whole: dict[str, ShardPosition] = {}
    added_whole = dict(added)
    index = {shard_id: number for number, shard_id in enumerate(base)}
    for shard_id, shard in shards.items():
        before = base.get(shard_id)
        if before is shard or before == shard:
            continue
        if before is not None and (row := _encode_moved(before, shard)) is not None:
            moved.append((index[shard_id], *row))
        else:
            whole[shard_id] = shard
    for shard_id, each in added.items():
        before, now = base.get(shard_id), shards.get(shard_id)
        if before is None or now is None:
            continue
        if (row := _encode_added(before, now, each)) is not None:
            ranges.append((index[shard_id], *row))
            del added_whole[shard_id]
    return Changes(
        moved=len(moved),
        columns=_columns(moved),
        whole=whole,
        removed=tuple(number for shard_id, number in index.items() if shard_id not in shards),
        added=len(ranges),
        added_columns=_columns(ranges),
        added_whole=added_whole,
    )


def apply(
    base: Mapping[str, ShardPosition], changed: Changes
) -> tuple[dict[str, ShardPosition], dict[str, RangeStats]]:
    """Return the `shards` and `added` that were passed to `changes`.

    Raises:
        msgspec.ValidationError: The changes are not from this base.
    """
    ids = list(base)
    shards, added = dict(base), dict(changed.added_whole)
    try:
        for index, *row in _rows(changed.columns, changed.moved):
            shards[ids[index]] = _decode_moved(base[ids[index]], row)
        shards |= changed.whole
        for index in changed.removed:
            del shards[ids[index]]
        for index, *row in _rows(changed.added_columns, changed.added):
            added[ids[index]] = _decode_added(base[ids[index]], shards[ids[index]], row)
    except (InvalidInput, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise msgspec.ValidationError(f"its changes do not match its base: {error!r}") from error
    return shards, added


def _columns(rows: Sequence[tuple[int, ...]]) -> tuple[Column, ...]:
    return tuple(pack(column) for column in zip(*rows, strict=True))


def _rows(columns: Sequence[Column], count: int) -> Iterator[tuple[int, ...]]:
    return zip(*(unpack(column, count) for column in columns), strict=True)


def _encode_moved(before: ShardPosition, shard: ShardPosition) -> tuple[int, ...] | None:
    """Encode a shard that was read further as numbers; return None if anything else of it changed."""
    position = shard.position
    if position.kind is not PositionKind.AFTER_SEQUENCE_NUMBER:
        return None
    row = (
        int(position.sequence_number or 0) - _number(before),
        _encode_optional(position.sub_sequence_number),
        _encode_optional(_microseconds(shard.tip_time)),
        _encode_optional(_microseconds(shard.last_arrival)),
        _encode_optional(shard.bytes_per_second),
    )
    # A shard that does not decode to the same value, as with fields added later, is stored completely.
    return row if _decode_moved(before, row) == shard else None


def _decode_moved(before: ShardPosition, row: Sequence[int]) -> ShardPosition:
    number, sub, tip_time, last_arrival, rate = row
    return msgspec.structs.replace(
        before,
        position=Position.after(str(_number(before) + number), _decode_optional(sub)),
        tip_time=_time(_decode_optional(tip_time)),
        last_arrival=_time(_decode_optional(last_arrival)),
        bytes_per_second=_decode_optional(rate),
    )


def _encode_added(before: ShardPosition, now: ShardPosition, stats: RangeStats) -> tuple[int, ...] | None:
    """Encode a range as numbers; return None if numbers do not describe it completely."""
    start, (first, last) = stats.start, stats.numbers
    if start.kind is not PositionKind.AFTER_SEQUENCE_NUMBER:
        return None
    row = (
        int(start.sequence_number or 0) - _number(before),
        _encode_optional(start.sub_sequence_number),
        last - first,
        stats.rows,
        stats.bytes,
        stats.checksum,
    )
    return row if _decode_added(before, now, row) == stats else None


def _decode_added(before: ShardPosition, now: ShardPosition, row: Sequence[int]) -> RangeStats:
    start, sub, distance, rows, size, checksum = row
    last = now.position.sequence_number or "0"
    return RangeStats(
        start=Position.after(str(_number(before) + start), _decode_optional(sub)),
        through=now.position,
        first_sequence_number=str(int(last) - distance),
        last_sequence_number=last,
        rows=rows,
        bytes=size,
        checksum=checksum,
    )


def _number(shard: ShardPosition) -> int:
    return int(shard.position.sequence_number or 0)


def _encode_optional(value: int | None) -> int:
    return 0 if value is None else value + 1


def _decode_optional(value: int) -> int | None:
    return value - 1 if value else None


def _microseconds(time: datetime | None) -> int | None:
    return None if time is None else (time - _EPOCH) // _MICROSECOND


def _time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else _EPOCH + microseconds * _MICROSECOND


def pack(numbers: Sequence[int]) -> Column:
    """Encode numbers as a column."""
    lowest = min(numbers, default=0)
    width = -(-(max(numbers, default=0) - lowest).bit_length() // 8)
    rows = b"".join([(number - lowest).to_bytes(width, "little") for number in numbers])
    return Column(str(lowest), width, b"".join([rows[byte::width] for byte in range(width)]))


def unpack(column: Column, count: int) -> list[int]:
    """Decode the numbers of a column that `pack` returned.

    Raises:
        msgspec.ValidationError: The column is damaged or has another count.
    """
    if not 0 <= column.width <= _MAX_WIDTH or len(column.packed) != column.width * count:
        raise msgspec.ValidationError(
            f"a column has {len(column.packed)} bytes instead of {count} x {column.width}"
        )
    try:
        lowest = int(column.lowest)
    except ValueError as error:
        raise msgspec.ValidationError(f"the lowest value of a column is not a number: {error}") from error
    if not column.width:
        return [lowest] * count
    return [lowest + int.from_bytes(column.packed[row::count], "little") for row in range(count)]
