"""Each datum of an Avro object container is a document. Damage spoils what is behind it, and no more."""

from __future__ import annotations

import bz2
import json
import zlib
from io import BytesIO

import fastavro
import pyarrow as pa
import pytest

from kinesis_assets.decoders.avro_container import AvroContainer
from kinesis_assets.errors import InvalidInput
from support.raw_rows import decoded
from support.spark_types import spark_type

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
MARKER = bytes(range(16))
DEFINITION = b'{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
TYPE = "id long"


def header(codec: bytes = b"null", definition: bytes = DEFINITION) -> bytes:
    entries = b"\x16avro.schema" + number(len(definition)) + definition
    entries += b"\x14avro.codec" + number(len(codec)) + codec
    return b"Obj\x01\x04" + entries + b"\0" + MARKER


def number(value: int) -> bytes:
    found, value = b"", 2 * value
    while value > 127:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])


def block(count: int, data: bytes, marker: bytes = MARKER) -> bytes:
    return number(count) + number(len(data)) + data + marker


def rows(data: bytes, ddl: str = TYPE, **more: object) -> list[tuple[object, object, object]]:
    found = decoded([data], AvroContainer(spark_type(ddl), **more))
    return [(row["document_number"], row["value"], row["error"]) for row in found]


def errors(data: bytes, **more: object) -> list[object]:
    return [error if value is None else value["id"] for _, value, error in rows(data, **more)]


def test_each_datum_is_a_document():
    assert rows(header() + block(2, b"\x02\x04") + block(1, b"\x06")) == [
        (0, {"id": 1}, None),
        (1, {"id": 2}, None),
        (2, {"id": 3}, None),
    ]


def test_the_bytes_of_a_document_are_a_container_of_its_own():
    first, second = decoded(
        [header(b"deflate") + block(2, deflated(b"\x02\x04"))], AvroContainer(spark_type(TYPE))
    )
    assert [list(fastavro.reader(BytesIO(row["data"]))) for row in (first, second)] == [
        [{"id": 1}],
        [{"id": 2}],
    ]
    (again,) = decoded([second["data"]], AvroContainer(spark_type(TYPE)))
    assert again["value"] == {"id": 2}


def test_a_container_without_data_has_no_documents():
    assert rows(header()) == []
    assert rows(header() + block(0, b"")) == []


def test_the_codec_is_null_if_the_header_has_none():
    plain = b"Obj\x01\x02\x16avro.schema" + number(len(DEFINITION)) + DEFINITION + b"\0" + MARKER
    assert errors(plain + block(1, b"\x02")) == [1]


def test_the_map_of_a_header_may_have_its_size():
    entries = b"\x16avro.schema" + number(len(DEFINITION)) + DEFINITION
    sized = b"Obj\x01\x01" + number(len(entries)) + entries + b"\0" + MARKER
    assert errors(sized + block(1, b"\x02")) == [1]


def deflated(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(data) + stream.flush()


def snapped(data: bytes) -> bytes:
    return pa.Codec("snappy").compress(data, asbytes=True) + zlib.crc32(data).to_bytes(4, "big")


def zstandard(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data, asbytes=True)


CODECS = {
    b"null": bytes,
    b"deflate": deflated,
    b"snappy": snapped,
    b"zstandard": zstandard,
    b"bzip2": bz2.compress,
}


@pytest.mark.parametrize(("codec", "compress"), CODECS.items())
def test_blocks_are_decompressed(codec, compress):
    assert errors(header(codec) + block(3, compress(b"\x02\x04\x06"))) == [1, 2, 3]


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_container_of_another_writer_is_read(codec):
    stream = BytesIO()
    fastavro.writer(stream, ORDER, [{"id": each} for each in range(300)], codec=codec, sync_interval=100)
    assert errors(stream.getvalue()) == list(range(300))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "no container: the record starts with "),
        (b"\x02", "no container: the record starts with 02, not with 4f 62 6a 01"),
        (b"Obj\x02", "no container: the record starts with 4f 62 6a 02"),
        (b"Obj\x01", "the container is truncated or damaged"),
        (header()[:-1], "the container is truncated or damaged: 16 bytes are expected, and 15 follow"),
        (b"Obj\x01\x02\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "the container is truncated or damaged"),
        (b"Obj\x01\x02\x01", "the container is truncated or damaged: -1 bytes are expected"),
        (header(b"xz"), "its codec is xz; null, deflate, snappy, zstandard, bzip2 are supported"),
        (header(definition=b"{"), "its definition is not an Avro schema"),
        (header(definition=b"\xff"), "its schema is not UTF-8"),
        (
            header(definition=DEFINITION.replace(b'"long"', b'{"type":"array","items":"null"}')),
            "its definition has an array of items without any bytes",
        ),
        (
            header(definition=DEFINITION.replace(b'"long"', b'["null","Order"]')),
            "its definition is recursive",
        ),
    ],
)
def test_a_record_that_is_no_container_is_one_bad_record(data, error):
    (row,) = decoded([data], AvroContainer(spark_type(TYPE)))
    assert (row["document_number"], row["value"], row["data"]) == (None, None, data)
    assert row["error"].startswith(f"avro_container: {error}")


def test_a_datum_that_does_not_match_the_type_is_a_bad_document():
    found = rows(header() + block(3, b"\x02\xfe\xff\xff\xff\x1f\x06"), "id int")
    assert [(number, value) for number, value, _ in found] == [(0, {"id": 1}), (1, None), (2, {"id": 3})]
    assert found[1][2] == "avro_container: Expected `int` <= 2147483647 - at `$.id`"


def test_a_damaged_datum_spoils_the_rest_of_its_block():
    bad = b"\xff" * 11
    data = header() + block(1, b"\x02") + block(3, b"\x04" + bad) + block(1, b"\x08")
    first, second, damaged, last = decoded([data], AvroContainer(spark_type(TYPE)))
    assert [row["value"] for row in (first, second, damaged, last)] == [{"id": 1}, {"id": 2}, None, {"id": 4}]
    assert damaged["error"].startswith("avro_container: the record does not match its schema: ")
    assert damaged["data"].endswith(block(2, bad))


def test_bytes_behind_the_last_datum_of_a_block_are_a_bad_document():
    data = header() + block(1, b"\x02\x04\x06") + block(1, b"\x08")
    assert errors(data) == [1, "avro_container: 2 bytes follow the last datum of a block", 4]


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (b"deflate", deflated(b"\x04")[:-1]),
        (b"deflate", b"\xff"),
        (b"snappy", snapped(b"\x04")[:-1] + b"\0"),
        (b"snappy", b""),
        (b"snappy", b"\xff\xff\xff\xff\x07\0\0\0\0"),
        (b"zstandard", b"\x04"),
        (b"null", b""),
    ],
)
def test_a_damaged_block_spoils_no_other_block(codec, data):
    compress = CODECS[codec]
    first, damaged, last = errors(
        header(codec) + block(1, compress(b"\x02")) + block(1, data) + block(1, compress(b"\x06"))
    )
    assert (first, last) == (1, 3)
    assert str(damaged).startswith("avro_container: ")


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(block(1, b"\x04")[:-1], id="truncated"),
        pytest.param(block(1, b"\x04", bytes(16)), id="without its marker"),
        pytest.param(b"\x02" + number(1 << 40) + b"\x04" + MARKER, id="a huge size"),
        pytest.param(b"\x02\x01\x04" + MARKER, id="a negative size"),
        pytest.param(b"\x80", id="a number without its end"),
        pytest.param(b"\xff" * 30, id="a number that is too long"),
    ],
)
def test_what_is_behind_a_damaged_frame_is_one_bad_document(end):
    first, damaged = decoded([header() + block(1, b"\x02") + end], AvroContainer(spark_type(TYPE)))
    assert (first["value"], damaged["value"], damaged["document_number"]) == ({"id": 1}, None, 1)
    assert damaged["error"].startswith("avro_container: the container is ")
    assert damaged["data"] == header() + end


@pytest.mark.parametrize("count", [2, 1 << 40])
def test_a_block_cannot_have_more_data_than_bytes(count):
    assert errors(header() + block(count, b"\x02") + block(1, b"\x04")) == [
        f"avro_container: a block of 1 bytes has {count} data",
        2,
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_the_decompressed_size_of_a_record_is_limited(codec):
    compress = CODECS[codec]
    five = compress(b"\x02" * 5)
    data = header(codec) + block(5, five) + block(5, five) + block(1, compress(b"\x04"))
    assert errors(data, max_bytes=11) == [*[1] * 10, 2]
    assert errors(data, max_bytes=9) == [
        *[1] * 5,
        "avro_container: more bytes uncompressed than max_bytes",
        2,
    ]


def test_the_rest_of_a_container_is_bad_whose_data_would_repeat_its_header_too_often(monkeypatch):
    monkeypatch.setattr("kinesis_assets.decoders.avro_container.MOST_REPEATED", 5 * len(header()))
    assert errors(header() + block(1, b"\x02") + block(3, b"\x02\x04\x06") + block(1, b"\x08")) == [
        1,
        "avro_container: its data would each have the 123 bytes of its header, more than 615 together",
    ]
    damaged = block(9, b"\x02")
    assert len(errors(header() + 100 * damaged)) == 6


def test_the_readers_schema_applies():
    reader = {
        **ORDER,
        "fields": [
            {"name": "order_id", "type": "long", "aliases": ["id"]},
            {"name": "currency", "type": "string", "default": "EUR"},
        ],
    }
    found = rows(header() + block(1, b"\x02"), "order_id long, currency string", reader=json.dumps(reader))
    assert found == [(0, {"order_id": 1, "currency": "EUR"}, None)]


def test_a_readers_schema_that_is_invalid_is_refused():
    with pytest.raises(InvalidInput, match="not an Avro schema"):
        AvroContainer(spark_type(TYPE), "{").resolved()


def test_containers_have_schemas_of_their_own():
    other = DEFINITION.replace(b"[", b'[{"name":"note","type":"string"},')
    found = decoded(
        [header() + block(1, b"\x02"), header(definition=other) + block(1, b"\x04hi\x04")],
        AvroContainer(spark_type("id long, note string")),
    )
    assert [row["value"] for row in found] == [{"id": 1, "note": None}, {"id": 2, "note": "hi"}]


def test_a_schema_that_is_nested_too_deep_makes_a_bad_record():
    nested = b'{"type":"array","items":' * 600 + b'"long"' + b"}" * 600
    data = header(definition=DEFINITION.replace(b'"long"', nested)) + block(1, b"\0")
    ((number_, value, error),) = rows(data)
    assert (number_, value) == (None, None)
    assert error.startswith("avro_container: its definition is nested too deep: maximum recursion depth")


def test_a_schema_that_repeats_empty_records_in_each_other_makes_a_bad_record():
    part: object = {"type": "record", "name": "A0", "fields": [{"name": "x", "type": "null"}]}
    for level in range(1, 40):
        fields = [{"name": "first", "type": part}, {"name": "second", "type": f"A{level - 1}"}]
        part = {"type": "record", "name": f"A{level}", "fields": fields}
    data = header(definition=json.dumps(part).encode()) + block(1, b"\0")
    error = "avro_container: its definition has more than 100000 parts, with those that are repeated"
    assert rows(data) == [(None, None, error)]


def test_a_datum_that_is_null_is_a_bad_document_for_a_readers_schema_too():
    reader = json.dumps(ORDER | {"fields": [*ORDER["fields"], {"name": "a", "type": "int", "default": 7}]})
    data = header(definition=b'["null",%b]' % DEFINITION) + block(2, b"\x00" + b"\x02\x06")
    assert rows(data, "id long, a int", reader=reader) == [
        (0, None, "avro_container: Expected `object`, got `null`"),
        (1, {"id": 3, "a": 7}, None),
    ]
