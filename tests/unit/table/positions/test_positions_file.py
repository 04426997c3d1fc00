"""The positions file: formats, damage and size."""

from __future__ import annotations

import random
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta

import msgspec
import pyarrow as pa
import pytest

from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.positions.positions import FORMAT, Predecessor, ShardPosition, StreamPositions
from kinesis_assets.table.positions.positions_file import HEADER_BYTES, decode_header, encode
from support.attempts import BEGINNING, LISTED_AT, STREAM
from support.stored_positions import GAP, decoded, positions_of, shard_after, shard_at


def test_positions_survive_a_round_trip_through_the_file():
    positions = StreamPositions(
        format=FORMAT,
        identity=STREAM,
        commit_id=(1 << 62) - 1,
        previous=1 << 60,
        generation=12,
        batch_id=(1 << 62) - 3,
        shards={
            "a": shard_at(),
            "b": shard_at(Position.at_timestamp(datetime(2026, 1, 31, 12, 0, 0, 123000, UTC)), ("a",)),
            "c": shard_at(
                Position.after("4968" * 14),
                ("a", "b"),
                finished=True,
                tip_time=datetime(2026, 2, 1, tzinfo=UTC),
                last_arrival=datetime(2026, 2, 1, 0, 0, 0, 1000, UTC),
                bytes_per_second=123_456,
                wanted_from=datetime(2026, 1, 1, tzinfo=UTC),
                retention_hours=8760,
                gaps=(GAP, msgspec.structs.replace(GAP, since=None, next_sequence_number=None)),
            ),
            "d": shard_at(Position.after("4968" * 14, 7)),
        },
        listed_at=LISTED_AT,
        predecessors=(Predecessor(STREAM, {"a": BEGINNING, "b": Position.after("6", 0)}),),
    )
    assert decoded(encode(positions)) == positions


def plain(positions):
    """The content of a file in format 3."""
    return msgspec.json.encode(msgspec.structs.replace(positions, format=3))


def unpack(file):
    """The compressed document of a file, and the document around it."""
    around = msgspec.json.decode(file)
    size, shards = around["size"], b64decode(around["shards"])
    return msgspec.json.decode(pa.decompress(shards, size, codec="zstd", asbytes=True)), around


def pack(whole, around):
    whole = msgspec.json.encode(whole)
    shards = b64encode(pa.compress(whole, codec="zstd", asbytes=True)).decode()
    return msgspec.json.encode(around | {"size": len(whole), "shards": shards})


def test_a_file_of_format_3_is_read():
    positions = positions_of(a=shard_at(), b=shard_at(Position.after("4968" * 14, 7)))
    assert decoded(plain(positions)) == msgspec.structs.replace(positions, format=3)


def test_a_file_of_format_4_is_read():
    positions = msgspec.structs.replace(positions_of(a=shard_at(), b=shard_after(7)), format=4)
    whole, _ = unpack(encode(positions))
    assert "bytes_per_second" not in whole["shards"]["b"]
    assert decoded(encode(positions)) == positions


@pytest.mark.parametrize("where", ["top", "identity", "shard", "position"])
@pytest.mark.parametrize("is_packed", [True, False])
def test_an_unknown_field_is_refused(where, is_packed):
    content = encode(positions_of(a=shard_at())) if is_packed else plain(positions_of(a=shard_at()))
    whole, around = unpack(content) if is_packed else (msgspec.json.decode(content), None)
    shard = whole["shards"]["a"]
    {"top": whole, "identity": whole["identity"], "shard": shard, "position": shard["position"]}[where][
        "later"
    ] = 1
    with pytest.raises(msgspec.ValidationError, match="later"):
        decoded(pack(whole, around) if is_packed else msgspec.json.encode(whole))


def test_a_newer_format_is_refused_by_its_number():
    content = msgspec.json.decode(encode(positions_of(a=shard_at())))
    content |= {"format": FORMAT + 1, "later": 1}
    with pytest.raises(msgspec.ValidationError, match=rf"format is {FORMAT + 1}\b.*\b{FORMAT}$"):
        decoded(msgspec.json.encode(content))


def test_a_release_without_compression_can_read_the_format_number():
    """Such a release parses the whole file as JSON, or the part before the shards."""
    content = encode(positions_of(a=shard_at()))
    assert msgspec.json.decode(content)["format"] == FORMAT
    assert msgspec.json.decode(content[: content.index(b',"shards":')] + b"}")["format"] == FORMAT


def test_a_header_that_differs_from_the_compressed_document_is_refused():
    whole, around = unpack(encode(positions_of(a=shard_at())))
    with pytest.raises(msgspec.ValidationError, match="header"):
        decoded(pack(whole, around | {"token": 8}))


@pytest.mark.parametrize(
    "damage",
    [
        *({"size": size} for size in (-1, 0, 3, 10_000, 1 << 62, 1 << 70)),
        *({"shards": shards} for shards in ("", "AAAA", "no")),
    ],
)
def test_content_that_cannot_be_decompressed_is_refused(damage):
    content = msgspec.json.decode(encode(positions_of(a=shard_at())))
    with pytest.raises(msgspec.MsgspecError):
        decoded(msgspec.json.encode(content | damage))


@pytest.mark.parametrize("write", [encode, plain])
@pytest.mark.parametrize("indent", [0, 1])
def test_the_header_is_decoded_from_the_first_bytes(write, indent):
    positions = positions_of(**{f"shardId-{number:012}": shard_of(number) for number in range(1000)})
    content = msgspec.json.format(write(positions), indent=indent)
    assert len(content) > 10 * HEADER_BYTES
    found = decode_header(content[:HEADER_BYTES])
    assert found == decoded(content).header


def test_an_incomplete_header_is_decoded_as_none():
    content = encode(positions_of(a=shard_at()))
    assert decode_header(content[: content.index(b'"shards"')]) is None


def test_a_header_of_a_newer_format_is_refused():
    content = encode(msgspec.structs.replace(positions_of(a=shard_at()), format=FORMAT + 1))
    with pytest.raises(msgspec.ValidationError, match=rf"\b{FORMAT}$"):
        decode_header(content)


def shard_of(number):
    """A shard of a large stream, with random digits."""
    digits = str(random.Random(number).randrange(10**95, 10**96))
    return ShardPosition(
        parents=("shardId-000000000000",),
        hash_range=(digits[:39], digits[1:40]),
        position=Position.after(f"4{digits[41:]}"),
        tip_time=LISTED_AT,
        last_arrival=LISTED_AT + timedelta(milliseconds=number),
        bytes_per_second=int(digits[:6]),
        wanted_from=LISTED_AT,
        retention_hours=24,
    )


def test_a_shard_takes_less_than_120_bytes():
    """Every commit writes all shards."""
    one, many = (
        encode(positions_of(**{f"shardId-{each:012}": shard_of(each) for each in range(count)}))
        for count in (1, 1001)
    )
    assert (len(many) - len(one)) / 1000 < 120


def test_a_file_of_format_1_is_read_without_the_fields_of_later_formats():
    positions = decoded(OF_FORMAT_1)
    a, b, c = (positions.shards[name] for name in "abc")
    assert (positions.format, positions.identity, positions.generation) == (1, STREAM, 12)
    assert (positions.listed_at, positions.predecessors) == (None, ())
    assert a == ShardPosition(
        parents=(),
        hash_range=("0", "9"),
        position=Position.after("5"),
        finished=True,
        tip_time=datetime(2026, 2, 1, tzinfo=UTC),
        last_arrival=datetime(2026, 1, 31, 23, 59, 59, 1000, UTC),
    )
    assert b == shard_at(Position.at_timestamp(datetime(2026, 1, 31, 12, tzinfo=UTC)))
    assert c == shard_at(parents=("a", "b"))
    assert (c.complete_until, c.safe_until, c.gaps) == (None, None, ())


def test_a_truncated_file_is_refused():
    content = encode(positions_of(a=shard_at()))
    for length in range(len(content)):
        with pytest.raises(msgspec.MsgspecError):
            decoded(content[:length])


OF_FORMAT_1 = b"""{
 "format": 1,
 "identity": {
  "arn": "arn:aws:kinesis:us-east-1:000000000000:stream/orders",
  "created": "2026-01-01T00:00:00Z"
 },
 "token": 1882475050937511755,
 "previous": 1882475050916054048,
 "generation": 12,
 "batch_id": 1882475050928526399,
 "shards": {
  "a": {
   "parents": [],
   "hash_range": ["0", "9"],
   "position": {"kind": "AFTER_SEQUENCE_NUMBER", "sequence_number": "5"},
   "finished": true,
   "tip_time": "2026-02-01T00:00:00Z",
   "last_arrival": "2026-01-31T23:59:59.001000Z"
  },
  "b": {
   "parents": [],
   "hash_range": ["0", "9"],
   "position": {"kind": "AT_TIMESTAMP", "timestamp": "2026-01-31T12:00:00Z"}
  },
  "c": {"parents": ["a", "b"], "hash_range": ["0", "9"], "position": {"kind": "TRIM_HORIZON"}}
 }
}"""
