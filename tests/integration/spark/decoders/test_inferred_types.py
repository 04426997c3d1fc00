"""The type that is inferred from documents decodes them all."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kinesis_assets.decoders.json_documents import json_reader
from kinesis_assets.decoders.spark_types import parse_type, value_type
from kinesis_assets.schemas.ddl import columns
from kinesis_assets.schemas.inference import infer_values, read_document

NAMES = st.sampled_from(["a", "A", "a b", "a_b", "`", "", "_record", "order", "x.y\n"]) | st.text(max_size=2)
NUMBERS = st.integers() | st.integers(-(10**400), 10**400) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text() | st.dates().map(str) | st.datetimes().map(lambda time: f"{time.isoformat()}Z")
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.usefixtures("spark")
@settings(derandomize=True, max_examples=200)
@given(st.lists(st.dictionaries(NAMES, VALUES, max_size=3), min_size=1, max_size=4))
def test_every_document_is_decoded_by_the_type_that_is_inferred_from_all(
    documents: list[dict[str, Any]],
) -> None:
    payloads = [json.dumps(document).encode() for document in documents]
    inferred = infer_values([*map(read_document, payloads)])
    assume(inferred.fields)
    spark_type = parse_type(columns(inferred.fields))
    read = json_reader(spark_type)
    assert len(pa.array([read(payload) for payload in payloads], value_type(spark_type)[1])) == len(documents)
