"""Compressed records: gzip and zstd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import pyarrow as pa

from kinesis_assets.decoders.decoder import MAX_BYTES, Decoding, Undecodable, check_max_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

_READ_BYTES = 1 << 20  # at a time: Arrow allocates what it is asked for


@dataclass(frozen=True)
class _Compressed:
    max_bytes: int = MAX_BYTES
    name: ClassVar[str]
    spark_type: ClassVar[None] = None

    def __post_init__(self) -> None:
        check_max_bytes(self.max_bytes)

    def resolved(self) -> Self:
        return self

    def make_step(self) -> Callable[[Decoding], None]:
        def step(decoding: Decoding) -> None:
            decoding.value = uncompressed(decoding.value, self.name, self.max_bytes)

        return step


@dataclass(frozen=True)
class Gzip(_Compressed):
    """A gzip file of one or more members (RFC 1952), or a zlib stream (RFC 1950).

    Attributes:
        max_bytes: A record that is larger than this uncompressed is an error on its row.
    """

    name: ClassVar[str] = "gzip"


@dataclass(frozen=True)
class Zstd(_Compressed):
    """One or more zstd frames (RFC 8878).

    Attributes:
        max_bytes: A record that is larger than this uncompressed is an error on its row.
    """

    name: ClassVar[str] = "zstd"


def uncompressed(data: bytes, codec: str, max_bytes: int) -> bytes:
    """All of what was compressed.

    Args:
        data: One or more whole members or frames, and nothing else.
        codec: As Arrow calls it; "gzip" is zlib's own format too.
        max_bytes: Inclusive.

    Raises:
        Undecodable: It is cut short, is damaged, is something else, has bytes after its end, or gives more
            than `max_bytes`.
    """
    if not data:
        raise Undecodable("there are no bytes")
    chunks = []
    left = max_bytes + 1  # what comes after max_bytes is either its end or one byte too many
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
            while chunk := stream.read(min(left, _READ_BYTES)):
                chunks.append(chunk)
                left -= len(chunk)
    except OSError as error:
        raise Undecodable(str(error)) from error
    if not left:
        raise Undecodable(f"more than {max_bytes} bytes uncompressed (max_bytes)")
    return b"".join(chunks)
