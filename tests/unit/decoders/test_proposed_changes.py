"""The schema that is proposed for changes of databases decodes all of the sample, whatever its values are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinesis_assets.decoders.dms import DMS
from kinesis_assets.decoders.dynamodb import DynamoDB
from kinesis_assets.decoders.proposal import propose
from support.database_changes import rows_of
from support.sampled_shapes import attribute, captured, text
from support.spark_types import spark_type

pytestmark = pytest.mark.slow

NAMES = st.sampled_from(["a", "b"])
NUMBERS = ["1", "1.50", "1E+20", "1E-7", f"{10**28}.5", "-0"]
TEXTS = ["x", "", "007", "2026-05-01", "2026-05-01T08:00:00Z", "2026-05-01T08:00:00"]
SCALARS = [
    {"BOOL": True},
    {"NULL": True},
    {"B": "AA=="},
    {"SS": ["x"]},
    {"NS": ["1", "2.5"]},
    {"BS": ["AA=="]},
    *({"N": each} for each in NUMBERS),
    *({"S": each} for each in TEXTS),
]
ATTRIBUTES = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: (
        st.builds(lambda items: {"L": items}, st.lists(inner, max_size=2))
        | st.builds(lambda fields: {"M": fields}, st.dictionaries(NAMES, inner, max_size=2))
    ),
    max_leaves=4,
)
VALUES = st.recursive(
    st.sampled_from([None, True, 1, -5, 2.5, 0.1, 1e20, 10**17 + 1, 10**25, *NUMBERS, *TEXTS]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)


def bad(decoder: type[DMS | DynamoDB], documents: list[dict[str, Any]]) -> list[str]:
    """Return the errors of documents in the table that is proposed for them."""
    proposed = propose(text(*documents), "depot", "depot", "./depot").attributes
    ddl = proposed["schema"].lower().replace("bigint", "long").replace("(38, ", "(38,").replace("\n", " ")
    rows = rows_of(decoder(spark_type(ddl), proposed["key"]), *documents)
    return [row for row in rows if isinstance(row, str)]


@settings(derandomize=True, max_examples=120)
@given(st.lists(st.dictionaries(NAMES, ATTRIBUTES), min_size=1, max_size=3))
def test_every_item_of_dynamodb_is_decoded(items):
    assert bad(DynamoDB, [attribute("INSERT", 1, {"id": {"S": "k"}}, item) for item in items]) == []


@settings(derandomize=True, max_examples=120)
@given(st.lists(st.dictionaries(NAMES, VALUES), min_size=1, max_size=3))
def test_every_row_of_dms_is_decoded(rows):
    assert bad(DMS, [captured("trips", "load", 1, id=7, **row) for row in rows]) == []
