"""Decompression of records: gzip and zstd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import pyarrow as pa

from kinesis_assets.decoders.decoder import MAX_BYTES, Decoding, Undecodable, check_max_bytes

if TYPE_CHECKING:
    from kinesis_assets.decoders.decoder import Step

_READ_BYTES = 1 << 20  # Arrow allocates the requested size of each read


@dataclass(frozen=True)
class _Compressed:
    max_bytes: int = MAX_BYTES
    name: ClassVar[str]
    spark_type: ClassVar[None] = None

    def __post_init__(self) -> None:
        check_max_bytes(self.max_bytes)

    def resolved(self) -> Self:
        return self

    def make_step(self) -> Step:
        def step(decoding: Decoding) -> None:
            decoding.value = decompress(decoding.value, self.name, self.max_bytes)

        return step


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


def decompress(data: bytes, codec: str, max_bytes: int) -> bytes:
    """Decompress data.

    Args:
        data: One or more complete members or frames without any other bytes.
        codec: Arrow's name of the codec. "gzip" also reads zlib's format.
        max_bytes: The maximum decompressed size, inclusive.

    Raises:
        Undecodable: The data is truncated, damaged, in another format, followed by other bytes or larger than
            `max_bytes` when decompressed.
    """
    if not data:
        raise Undecodable("the compressed data is empty")
    chunks = []
    remaining = max_bytes + 1  # the extra byte shows that the data is larger than max_bytes
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
            while chunk := stream.read(min(remaining, _READ_BYTES)):
                chunks.append(chunk)
                remaining -= len(chunk)
    except OSError as error:
        raise Undecodable(str(error)) from error
    if not remaining:
        raise Undecodable(f"more than {max_bytes} bytes uncompressed (max_bytes)")
    return b"".join(chunks)
