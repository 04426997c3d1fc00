"""How `decode` applies decoders to the rows of a batch, and which decoders it refuses."""

from __future__ import annotations

import gzip
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pytest

from kinesis_assets.decoders import Glue, GlueRegistry, Gzip, Json, Zstd, decode
from kinesis_assets.decoders.chain import BATCH_BYTES, _decoded_batches, _document_batches
from kinesis_assets.decoders.decoder import BytesDecoder, Undecodable
from kinesis_assets.errors import InvalidInput
from support.raw_rows import decoded, raw_table
from support.spark_types import spark_type


@pytest.mark.slow
def test_large_decoded_records_are_returned_in_small_batches():
    grown = 5 << 20
    (batch,) = raw_table([pa.Codec("zstd").compress(bytes(grown), asbytes=True)] * 20).to_batches()
    done = list(_decoded_batches(iter([batch]), [Zstd()], pa.binary(), ["value"]))
    assert [row for part in done for row in part["sequence_number"].to_pylist()] == [
        str(n) for n in range(20)
    ]
    assert [part.num_rows for part in done] == [4] * 5  # each has 16 MiB or more, by less than one record
    assert BATCH_BYTES == 16 << 20


def test_a_long_error_is_shortened():
    (row,) = decoded([b"{}"], Json(spark_type(f"{'a' * 1000} long not null")))
    assert row["error"] == f"json: Object missing required field `{'a' * 1000}`"[:500]


@pytest.mark.parametrize(
    ("decoders", "error"),
    [
        ([], "decode needs at least one decoder"),
        ([Json("a long"), Gzip()], "json returns a typed value"),
        ([Glue("a long", schemas=GlueRegistry("us-east-1")), Json("a long")], "glue returns a typed value"),
    ],
)
def test_incompatible_decoders_are_refused(decoders, error):
    with pytest.raises(InvalidInput, match=error):
        decode(*decoders)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Gzip(max_bytes=0), "max_bytes must be from 1 to 1073741824"),
        (lambda: Glue(max_bytes=1 << 31), "max_bytes must be from 1 to 1073741824"),
        (lambda: Glue("a long"), "a type together with schemas"),
        (lambda: Glue(schemas={}), "a type together with schemas"),
    ],
)
def test_an_invalid_decoder_is_refused(make, error):
    with pytest.raises(InvalidInput, match=error):
        make()


@pytest.mark.slow
def test_optional_dependencies_are_not_imported_with_the_decoders():
    heavy = "{'boto3', 'botocore', 'dagster', 'deltalake', 'fastavro'}"
    program = f"import sys, kinesis_assets.decoders; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# Steps that make several documents of a record, or none


@dataclass(frozen=True)
class Cut(BytesDecoder):
    """Cuts records at commas, without the empty parts; one that begins with ! is bad."""

    multiplies: ClassVar[bool] = True
    name: ClassVar[str] = "cut"

    def make_step(self):
        def step(decoding):
            if decoding.value.startswith(b"!"):
                raise Undecodable("it begins with !")
            return (decoding.part(each) for each in decoding.value.split(b",") if each)

        return step


@dataclass(frozen=True)
class Odd(BytesDecoder):
    """Leaves out even numbers."""

    multiplies: ClassVar[bool] = True
    name: ClassVar[str] = "odd"

    def make_step(self):
        return lambda decoding: [decoding] if int(decoding.value) % 2 else []


def rows(data, *decoders):
    names = ("sequence_number", "document_number", "value", "data", "error")
    return [tuple(row[name] for name in names) for row in decoded(data, *decoders)]


INT = "Expected `int`, got `str`"


def test_each_document_of_a_record_is_a_row_with_its_bytes_and_its_number():
    assert rows([b"1,22", b"", b"3"], Cut(), Json(spark_type("int"))) == [
        ("0", 0, 1, b"1", None),
        ("0", 1, 22, b"22", None),
        ("2", 0, 3, b"3", None),
    ]


def test_a_bad_document_does_not_spoil_its_neighbors():
    assert rows([b'1,"x",3'], Cut(), Json(spark_type("int"))) == [
        ("0", 0, 1, b"1", None),
        ("0", 1, None, b'"x"', f"json: {INT}"),
        ("0", 2, 3, b"3", None),
    ]


def test_a_record_that_fails_before_it_is_split_has_no_number():
    bad = gzip.compress(b"!1,2")
    assert rows([b"plain", bad, gzip.compress(b"7")], Gzip(), Cut(), Json(spark_type("int"))) == [
        ("0", None, None, b"plain", "gzip: zlib inflate failed: incorrect header check"),
        ("1", None, None, bad, "cut: it begins with !"),
        ("2", 0, 7, b"7", None),
    ]


def test_the_number_of_a_document_does_not_depend_on_those_that_are_left_out():
    assert rows([b"1,2,3", b"4"], Cut(), Odd()) == [("0", 0, b"1", b"1", None), ("0", 2, b"3", b"3", None)]


def test_documents_are_numbered_in_their_record_and_not_in_the_part_of_it_that_was_split():
    split_again = [("0", 0, b"1", b"1", None), ("0", 1, b"2", b"2", None), ("0", 2, b"3", b"3", None)]
    assert rows([b"1,2,3"], Cut(), Cut()) == split_again


def test_a_step_that_fails_behind_some_documents_keeps_them_and_the_bytes_of_the_record():
    @dataclass(frozen=True)
    class Torn(Cut):
        def make_step(self):
            def step(decoding):
                yield decoding.part(b"1")
                raise Undecodable("torn")

            return step

    assert rows([b"1,2"], Torn()) == [("0", 0, b"1", b"1", None), ("0", None, None, b"1,2", "cut: torn")]


def test_the_carried_order_of_documents_is_that_of_their_record_and_then_their_number():
    (batch,) = raw_table([b"1,2", b"!", b"5"]).to_batches()
    batch = batch.append_column("__order", pa.array(["a1", "a2", "b1"]))
    (done,) = _document_batches(iter([batch]), [Cut()], pa.binary(), ["document_number", "value"], "__order")
    assert done["__order"].to_pylist() == ["a10000000000", "a10000000001", "a20000000000", "b10000000000"]


@pytest.mark.slow
def test_many_documents_of_a_record_are_returned_in_small_batches():
    (batch,) = raw_table([b"1," * 200_000]).to_batches()
    done = _document_batches(iter([batch]), [Cut()], pa.binary(), ["document_number", "value"], None)
    numbers = [part["document_number"].to_pylist() for part in done]
    assert [number for part in numbers for number in part] == [*range(200_000)]
    assert len(numbers) > 2


def test_a_row_that_has_an_error_already_is_not_split():
    (batch,) = raw_table([b"1,2"], ["broken aggregate"]).to_batches()
    (done,) = _document_batches(iter([batch]), [Cut()], pa.binary(), ["document_number", "value"], None)
    (row,) = done.to_pylist()
    assert (row["error"], row["data"], row["document_number"]) == ("broken aggregate", b"1,2", None)
