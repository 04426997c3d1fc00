"""How `decode` applies decoders to the rows of a batch, and which decoders it refuses."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from kinesis_assets.decoders import Glue, GlueRegistry, Gzip, Json, Zstd, decode
from kinesis_assets.decoders.chain import BATCH_BYTES, _decoded_batches
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
        (
            [Glue("a long", schemas=GlueRegistry("us-east-1")), Json("a long")],
            "glue returns a typed value",
        ),
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
