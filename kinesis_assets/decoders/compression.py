"""Decompression of records: gzip, zstd and snappy, or whichever of them a record shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from kinesis_assets.decoders.decoder import MAX_BYTES, BytesDecoder, Undecodable, check_max_bytes, value_step
from kinesis_assets.decoders.varint import read_varint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.decoders.decoder import Step

_READ_BYTES = 1 << 20  # Arrow allocates the requested size of each read


@dataclass(frozen=True)
class _Compressed(BytesDecoder):
    max_bytes: int = MAX_BYTES
    name: ClassVar[str]

    def __post_init__(self) -> None:
        check_max_bytes(self.max_bytes)

    def make_step(self) -> Step:
        return value_step(lambda data: decompress(data, self.name, self.max_bytes))


@dataclass(frozen=True)
class Gzip(_Compressed):
    """Decompress a gzip file of one or more members (RFC 1952) or a zlib stream (RFC 1950).

    Attributes:
        max_bytes: The maximum decompressed size of a record. A larger record is an error on its row.
    """

    name: ClassVar[str] = "gzip"


@dataclass(frozen=True)
class Zstd(_Compressed):
    """Decompress one or more zstd frames (RFC 8878).

    Attributes:
        max_bytes: The maximum decompressed size of a record. A larger record is an error on its row.
    """

    name: ClassVar[str] = "zstd"


@dataclass(frozen=True)
class Snappy(_Compressed):
    """Decompress a snappy block, or snappy's framing format, which needs the extra `snappy`.

    Attributes:
        max_bytes: The maximum decompressed size of a record. A larger record is an error on its row.
    """

    name: ClassVar[str] = "snappy"


@dataclass(frozen=True)
class AutoDecompress(_Compressed):
    """Decompress a record whose first bytes are those of gzip, zlib, zstd or snappy's framing format.

    Any other record is returned as it is: a snappy block has no such bytes.

    Attributes:
        max_bytes: The maximum decompressed size of a record. A larger record is an error on its row.
    """

    name: ClassVar[str] = "auto"


COMPRESSIONS = {each.name: each for each in (Gzip, Zstd, Snappy, AutoDecompress)}
"""By the value of the setting `compression`, the decoder."""

_FRAMED = b"\xff\x06\x00\x00sNaPpY"
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_ZLIB, _ZLIB_MULTIPLE, _ZLIB_DICTIONARY = 0x78, 31, 0x20


class TooLarge(Undecodable):
    """Data is larger than `max_bytes` when decompressed."""


def decompress(data: bytes, codec: str, max_bytes: int) -> bytes:
    """Decompress data.

    Args:
        data: One or more complete members or frames, or one block, without any other bytes.
        codec: A name of `COMPRESSIONS`. "gzip" also reads zlib's format.

    Raises:
        TooLarge: The data is larger than `max_bytes` when decompressed.
        Undecodable: The data is truncated, damaged, in another format or followed by other bytes.
    """
    if codec == "auto":
        codec = codec_of(data) or ""
        if not codec:
            return data
    if not data:
        raise Undecodable("the compressed data is empty")
    try:
        if codec == "snappy":
            return _unsnapped(data, max_bytes)
        return _streamed(data, codec, max_bytes)
    except OSError as error:
        raise Undecodable(str(error)) from error


def codec_of(data: bytes) -> str | None:
    """Return how the first bytes of data show that it is compressed; None if they do not."""
    if data.startswith(_GZIP):
        return "gzip"
    if data.startswith(_ZSTD):
        return "zstd"
    if data.startswith(_FRAMED):
        return "snappy"
    head = int.from_bytes(data[:2])
    is_zlib = head >> 8 == _ZLIB and not head % _ZLIB_MULTIPLE and not head & _ZLIB_DICTIONARY
    return "gzip" if is_zlib else None


def _streamed(data: bytes, codec: str, max_bytes: int) -> bytes:
    chunks = []
    remaining = max_bytes + 1  # the extra byte shows that the data is larger than max_bytes
    with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
        while chunk := stream.read(min(remaining, _READ_BYTES)):
            chunks.append(chunk)
            remaining -= len(chunk)
    if not remaining:
        raise TooLarge(f"more than {max_bytes} bytes uncompressed (max_bytes)")
    return b"".join(chunks)


def _unsnapped(data: bytes, max_bytes: int) -> bytes:
    is_framed = data.startswith(_FRAMED)
    size = sum(_framed_sizes(data)) if is_framed else _length(data)
    if size > max_bytes:
        raise TooLarge(f"more than {max_bytes} bytes uncompressed (max_bytes)")
    if not is_framed:
        block: bytes = pa.Codec("snappy").decompress(data, decompressed_size=size, asbytes=True)
        return block
    try:
        import cramjam  # noqa: PLC0415  # an extra, since Arrow does not read this format
    except ImportError:
        raise Undecodable("snappy's framing format needs: pip install 'kinesis-assets[snappy]'") from None
    try:
        return bytes(cramjam.snappy.decompress(data))
    except cramjam.DecompressionError as error:
        raise Undecodable(str(error)) from None


def _framed_sizes(data: bytes) -> Iterator[int]:
    """Yield the decompressed sizes of chunks: kind, length in three bytes, checksum and block each."""
    place = 0
    while place < len(data):
        kind, length = data[place], int.from_bytes(data[place + 1 : place + 4], "little")
        if kind == 0:
            yield _length(data[place + 8 : place + 13])
        elif kind == 1:
            yield max(length - 4, 0)  # without the checksum
        place += 4 + length


def _length(block: bytes) -> int:
    """Return the decompressed size at the beginning of a block."""
    if (size := read_varint(block)) is None:
        raise Undecodable("the snappy block has no length")
    return size[0]
