"""Types of Spark as DDL, parsed without Spark. An integration test compares the parser with Spark's."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.ddl import columns, parse_columns


@pytest.mark.parametrize(
    ("ddl", "expected"),
    [
        ("id BIGINT", "id BIGINT"),
        ("id long, at timestamp_ltz", "id BIGINT, at TIMESTAMP"),
        ("id: int, name: string", "id INT, name STRING"),
        ("struct<id: int>", "id INT"),
        ("id INT NOT NULL COMMENT 'a, b' , name STRING", "id INT NOT NULL, name STRING"),
        ("`a b` INT, `c``d` INT", "`a b` INT, `c``d` INT"),
        ("price dec(10,2), other numeric, more DECIMAL(3)", None),
        ("a ARRAY<MAP<STRING,STRUCT<b: INT>>>", "a ARRAY<MAP<STRING, STRUCT<b: INT>>>"),
        ("date DATE, struct STRUCT<array: ARRAY<INT> NOT NULL>", None),
        ('comment STRING COMMENT "it\'s"', "comment STRING"),
        ("id INT -- the number, of all\n, /* two */ name STRING", "id INT, name STRING"),
        ("größe INT, 1a INT", None),
        ("text STRING COLLATE UTF8_BINARY", "text STRING"),
        ("value VARIANT", "value VARIANT"),
        (
            "at timestamp without time zone, on timestamp with local time zone",
            "at TIMESTAMP_NTZ, on TIMESTAMP",
        ),
        ("id INT COMMENT r'a' \"b\", name STRING", "id INT, name STRING"),
    ],
)
def test_the_columns_of_ddl_are_known_without_spark(ddl, expected):
    found = parse_columns(ddl)
    assert expected is None or columns(found) == expected
    assert parse_columns(columns(found)) == found


@pytest.mark.parametrize(
    ("ddl", "reason"),
    [
        ("", "it has no columns"),
        (" \n", "it has no columns"),
        ("BIGINT", "BIGINT is a type, not a column"),
        ("decimal(10, 2)", "decimal is a type, not a column"),
        ("ARRAY<INT>", "ARRAY is a type, not a column"),
        ("id BIGNT", "id has the type BIGNT, which is none of .*BIGINT"),
        ("id INT, a STRUCT<b: STRUCT<c: NUMBER>>", r"a\.b\.c has the type NUMBER"),
        ("id INTERVAL DAY", "id has the type INTERVAL"),
        ("id", "id is a type, not a column"),
        ("id INT,", "its end in place of the name of a column"),
        ("id INT, , b INT", "it has , in place of the name of a column"),
        ("id INT b INT", "it has b in place of a comma"),
        ("a INT, id", "its end in place of the type of id"),
        ("id ARRAY<INT", "its end in place of > behind id"),
        ("id ARRAY", "its end in place of < behind id"),
        ("id ARRAY<INT>>", "it has > in place of a comma"),
        ("id INT NOT", "its end in place of NULL"),
        ("a STRUCT<>", "a is a struct without fields"),
        ("a MAP<INT, INT>", "a is a map with keys of the type INT"),
        ("a DECIMAL(39, 2)", r"a has the type DECIMAL\(39, 2\)"),
        ("a DECIMAL(2, 3)", r"a has the type DECIMAL\(2, 3\)"),
        ("a DECIMAL(0)", r"a has the type DECIMAL\(0, 0\)"),
        ("a DECIMAL(x)", r"a has the type DECIMAL\(x, 0\)"),
        ("a DECIMAL(2", r"its end in place of \)"),
        (f"id {'ARRAY<' * 2000}INT{'>' * 2000}", "nested too deeply"),
        ("id INT, ID INT", "the names id, ID are the same"),
        ("a-b INT", r"it has '-'"),
    ],
)
def test_ddl_that_describes_no_columns_is_refused_with_the_place(ddl, reason):
    with pytest.raises(InvalidInput, match=reason) as caught:
        parse_columns(ddl)
    assert "\n" not in str(caught.value)
