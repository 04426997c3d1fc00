"""Avro object containers: records with any number of data each, and the schema with which these were written.

A container begins with `Obj`, 1, a map with the schema and the codec, and a marker of 16 bytes. Blocks
follow. Each has the number of its data, its size, its compressed data, and the marker again.

fastavro's own reader is not used: it decompresses a block of any size, and a damaged one raises an error
after which nothing can be read.
Source: https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, ClassVar, Self, cast

from kinesis_assets.decoders.avro import AvroDefinition, AvroReader, check_reader
from kinesis_assets.decoders.compression import TooLarge, decompress
from kinesis_assets.decoders.decoder import MAX_BYTES, MOST_REPEATED, Decoding, Undecodable, check_max_bytes
from kinesis_assets.decoders.formats import FORMATS
from kinesis_assets.decoders.spark_types import parse_type
from kinesis_assets.decoders.varint import read_varint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql.types import DataType

    from kinesis_assets.decoders.decoder import DecoderSettings, Step

(_MAGIC,) = FORMATS["avro_container"].headers
_MARKER_BYTES = 16
_CHECKSUM_BYTES = 4
_MAX_VARINT = 10  # bytes of 64 bits
_MAX_READERS = 64


@dataclass(frozen=True)
class AvroContainer:
    """Decode records that are one Avro object container each, with a document for each datum.

    A datum that does not match the type is a bad document. So is the rest of a damaged block, and the rest
    of a container from a block on that is truncated or does not end with the marker. The bytes of a
    document are a container with this datum alone.

    Attributes:
        spark_type: The type as DDL or as a Spark type. Fields are matched by their names, as for `Json`.
        reader: A reader's Avro schema, whose defaults and aliases apply.
        max_bytes: The maximum decompressed size of a record. A larger block is an error.
    """

    spark_type: str | DataType
    reader: str | None = None
    max_bytes: int = MAX_BYTES
    name: ClassVar[str] = "avro_container"
    multiplies: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_max_bytes(self.max_bytes)

    @classmethod
    def from_settings(cls, settings: DecoderSettings) -> Self:
        """See `DecoderSettings`."""
        return cls(settings.schema, settings.reader)

    def resolved(self) -> Self:
        """Return a copy with a parsed type; see `Decoder`."""
        spark_type = parse_type(self.spark_type)
        check_reader(self.reader, spark_type)
        return replace(self, spark_type=spark_type)

    def make_step(self) -> Step:
        """See `Decoder`."""
        spark_type = cast("DataType", self.spark_type)

        @lru_cache(maxsize=_MAX_READERS)
        def reader_of(schema: str) -> AvroReader:
            return AvroReader(AvroDefinition(schema), spark_type, self.reader)

        return lambda decoding: self._documents(decoding, reader_of)

    def _documents(self, decoding: Decoding, reader_of: Callable[[str], AvroReader]) -> Iterator[Decoding]:
        cursor = _Cursor(decoding.value)
        header = _read_header(cursor)
        reader = reader_of(header.schema)
        remaining, repeated = self.max_bytes, 0
        while cursor.at < len(cursor.data):
            start, damage = cursor.at, None
            try:
                count, compressed = cursor.block(header.marker)
            except Undecodable as error:
                yield self._bad(decoding, header.raw + cursor.data[start:], error)
                return
            try:
                content = _decompressed(compressed, header.codec, remaining)
                _check_count(count, content)
            except Undecodable as error:
                count, content, damage = 0, b"", error
            repeated += (count + 1) * len(header.raw)
            if repeated > MOST_REPEATED:
                most = Undecodable(
                    f"its data would each have the {len(header.raw)} bytes of its header, more than "
                    f"{MOST_REPEATED} together"
                )
                yield self._bad(decoding, header.raw + cursor.data[start:], most)
                return
            if damage is not None:
                yield self._bad(decoding, header.raw + cursor.data[start : cursor.at], damage)
                continue
            remaining -= len(content)
            yield from self._data(decoding, header, reader, count, content)

    def _data(
        self, decoding: Decoding, header: _Header, reader: AvroReader, count: int, content: bytes
    ) -> Iterator[Decoding]:
        """Decode the data of a block."""
        stream = BytesIO(content)
        for number in range(count):
            start = stream.tell()
            try:
                value = reader.parse(stream)
            except Undecodable as error:
                yield self._bad(decoding, header.framed(count - number, content[start:]), error)
                return
            document = decoding.part(header.framed(1, content[start : stream.tell()]))
            try:
                document.value = reader.convert(value)
            except Undecodable as error:
                document.fail(self.name, error)
            yield document
        if rest := content[stream.tell() :]:
            follows = Undecodable(f"{len(rest)} bytes follow the last datum of a block")
            yield self._bad(decoding, header.framed(0, rest), follows)

    def _bad(self, decoding: Decoding, data: bytes, error: Undecodable) -> Decoding:
        bad = decoding.part(data)
        bad.fail(self.name, error)
        return bad


def writer_schema(record: bytes) -> str:
    """Return the schema in a container, as JSON. Raises `Undecodable` if it has none."""
    return _read_header(_Cursor(record)).schema


@dataclass(frozen=True, slots=True)
class _Header:
    """The header of a container.

    Attributes:
        alone: The header of a container without compression.
    """

    schema: str
    codec: str
    marker: bytes
    raw: bytes
    alone: bytes

    def framed(self, count: int, data: bytes) -> bytes:
        return b"".join((self.alone, _varint(count), _varint(len(data)), data, self.marker))


def _read_header(cursor: _Cursor) -> _Header:
    if cursor.data[: len(_MAGIC)] != _MAGIC:
        raise Undecodable(
            f"no container: the record starts with {cursor.data[:4].hex(' ')}, not with 4f 62 6a 01"
        )
    cursor.at = len(_MAGIC)
    values: dict[bytes, bytes] = {}
    while count := cursor.varint():
        if count < 0:
            cursor.varint()  # the size of the entries
        for _ in range(abs(count)):
            key = cursor.take(cursor.varint())
            values[key] = cursor.take(cursor.varint())
    marker = cursor.take(_MARKER_BYTES)
    schema = values.get(b"avro.schema", b"")
    codec = values.get(b"avro.codec", b"null").decode(errors="replace")
    if codec not in _CODECS:
        raise Undecodable(f"its codec is {codec[:80]}; {', '.join(_CODECS)} are supported")
    entry = b"".join((_varint(11), b"avro.schema", _varint(len(schema)), schema))
    alone = b"".join((_MAGIC, _varint(1), entry, _varint(0), marker))
    try:
        return _Header(schema.decode(), codec, marker, cursor.data[: cursor.at], alone)
    except UnicodeDecodeError as error:
        raise Undecodable(f"its schema is not UTF-8: {error}") from error


@dataclass(slots=True)
class _Cursor:
    """Reads bytes from the first to the last, or raises `Undecodable`."""

    data: bytes
    at: int = 0

    def varint(self) -> int:
        if (read := read_varint(self.data, self.at, max_bytes=_MAX_VARINT)) is None:
            raise Undecodable("the container is truncated or damaged: it has no number where one is expected")
        number, self.at = read
        return -(number // 2) - 1 if number % 2 else number // 2

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            raise Undecodable(
                f"the container is truncated or damaged: {size} bytes are expected, and "
                f"{len(self.data) - self.at} follow"
            )
        self.at += size
        return self.data[self.at - size : self.at]

    def block(self, marker: bytes) -> tuple[int, bytes]:
        """Read a block. Returns the number of its data, and its compressed bytes."""
        count = self.varint()
        compressed = self.take(self.varint())
        if self.take(_MARKER_BYTES) != marker:
            raise Undecodable("the container is damaged: a block does not end with its marker")
        return count, compressed


def _varint(number: int) -> bytes:
    """Return a number that is not negative as a zigzag number."""
    number *= 2
    found = bytearray()
    while number > 0x7F:  # noqa: PLR2004  # the bits of a byte besides the first
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


_MORE_BYTES = "more bytes uncompressed than max_bytes"


def _decompressed(data: bytes, codec: str, max_bytes: int) -> bytes:
    try:
        content = _CODECS[codec](data, max_bytes)
    except TooLarge as error:  # which names what is left of max_bytes
        raise Undecodable(_MORE_BYTES) from error
    except (ValueError, zlib.error) as error:
        raise Undecodable(f"a block cannot be decompressed ({codec}): {error}") from error
    if len(content) > max_bytes:
        raise Undecodable(_MORE_BYTES)
    return content


def _check_count(count: int, content: bytes) -> None:
    if not 0 <= count <= len(content):  # a datum without any bytes would make a block endless
        raise Undecodable(f"a block of {len(content)} bytes has {count} data")


def _inflate(data: bytes, max_bytes: int) -> bytes:
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    content = stream.decompress(data, max_bytes + 1)
    if len(content) <= max_bytes and not stream.eof:  # some writers leave a part of a checksum behind it
        raise ValueError("it is truncated or damaged")
    return content


def _unsnap(data: bytes, max_bytes: int) -> bytes:
    content = decompress(data[:-_CHECKSUM_BYTES], "snappy", max_bytes)
    if zlib.crc32(content) != int.from_bytes(data[-_CHECKSUM_BYTES:], "big"):
        raise ValueError("its checksum does not match")
    return content


_CODECS: dict[str, Callable[[bytes, int], bytes]] = {
    "null": lambda data, _: data,
    "deflate": _inflate,
    "snappy": _unsnap,
    "zstandard": lambda data, max_bytes: decompress(data, "zstd", max_bytes),
    "bzip2": lambda data, max_bytes: decompress(data, "bz2", max_bytes),
}
