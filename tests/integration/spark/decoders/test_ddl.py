"""DDL that is parsed without Spark: nothing that a typed table can have is refused."""

from __future__ import annotations

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from kinesis_assets.decoders.spark_types import parse_type, value_type
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.ddl import parse_columns

NAMES = st.sampled_from(["a", "B", "1a", "größe", "`x y`", "`q``t`", "date", "struct", "comment", "not"])
GOOD = (
    *("boolean", "byte", "tinyint", "short", "smallint", "int", "integer", "long", "bigint", "float", "real"),
    *("double", "string", "binary", "date", "timestamp", "timestamp_ltz", "timestamp_ntz", "variant"),
    *("decimal", "dec", "numeric(12)", "decimal(38,38)"),
)
LONGER = ["string collate utf8_binary", "timestamp without time zone", "timestamp with local time zone"]
BAD = ["decimal(39)", "decimal(2,3)", "void", "char(3)", "time", "interval day", "unknown", "array"]
PLAIN = st.sampled_from([*GOOD, *GOOD, *LONGER, *BAD])
SUFFIXES = st.sampled_from([*[""] * 6, " not null", " COMMENT 'c, >'", " comment r'c'", " default 1"])


def fields(types: st.SearchStrategy[str], most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(
        st.tuples(NAMES, st.sampled_from([" ", ": "]), types, SUFFIXES).map("".join), max_size=most
    )


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        inner.map("array<{}>".format),
        inner.map("map<string, {}>".format),
        inner.map("map<int, {}>".format),
        fields(inner, 2).map(lambda each: f"struct<{', '.join(each)}>"),
    )


TYPES = st.recursive(PLAIN, nested, max_leaves=3)
DDL = st.one_of(
    *[fields(TYPES, 2).map(", ".join)] * 4, TYPES, fields(TYPES, 2).map(",".join).map("{},".format)
)


@pytest.mark.usefixtures("spark")
@settings(derandomize=True, max_examples=400)
@given(DDL)
def test_columns_that_spark_and_the_decoders_accept_are_accepted_without_spark(ddl: str) -> None:
    try:
        kind = parse_type(ddl)
        value_type(kind)
        names = kind.names if hasattr(kind, "names") else []
        usable = bool(names) and len({name.lower() for name in names}) == len(names)
    except InvalidInput:
        usable = False
    event(f"usable: {usable}")
    if usable and "<>" not in ddl:
        assert [field.name for field in parse_columns(ddl)] == names
