"""Changes of DynamoDB become rows with exact values, or have an error with the path of what does not fit."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from kinesis_assets.decoders.dynamodb import DynamoDB
from kinesis_assets.errors import InvalidInput
from support.database_changes import rows_of
from support.spark_types import spark_type

AT = 1_767_323_045_000_006
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)


def change(name="MODIFY", *, keys=None, new=None, old=None, at=AT, precision="MICROSECOND", **record):
    dynamodb = {"ApproximateCreationDateTime": at, "Keys": keys or {"pk": {"S": "p1"}}, "SizeBytes": 9}
    if precision is not None:
        dynamodb["ApproximateCreationDateTimePrecision"] = precision
    if new is not None:
        dynamodb["NewImage"] = {**dynamodb["Keys"], **new}
    if old is not None:
        dynamodb["OldImage"] = {**dynamodb["Keys"], **old}
    return {"eventName": name, "tableName": "baskets", "eventID": "e", "dynamodb": dynamodb, **record}


def rows(ddl, *documents, key=("pk",)):
    return rows_of(DynamoDB(spark_type(f"pk string, {ddl}"), key), *documents)


def value(ddl, attribute):
    """Return the decoded value of an attribute, or the reason why it cannot be decoded."""
    [row] = rows(f"a {ddl}", change(new={"a": attribute}))
    return row if isinstance(row, str) else row.get("a")


def test_an_insert_is_a_row_with_its_new_image():
    assert rows("qty int", change("INSERT", new={"qty": {"N": "3"}, "other": {"S": "x"}})) == [
        {"pk": "p1", "qty": 3, "_operation": "insert", "_changed_at": MOMENT}
    ]


def test_a_change_is_a_row_with_its_new_image():
    assert rows("qty int", change(new={"qty": {"N": "3"}}, old={"qty": {"S": "of another type"}})) == [
        {"pk": "p1", "qty": 3, "_operation": "update", "_changed_at": MOMENT}
    ]


def test_a_removal_has_the_keys():
    assert rows("qty int not null", change("REMOVE")) == [
        {"pk": "p1", "_operation": "delete", "_changed_at": MOMENT}
    ]


def test_a_removal_has_the_old_image_if_it_is_there():
    assert rows("qty int", change("REMOVE", old={"qty": {"N": "2"}})) == [
        {"pk": "p1", "qty": 2, "_operation": "delete", "_changed_at": MOMENT}
    ]


@pytest.mark.parametrize("image", ["NewImage", "OldImage"])
def test_an_image_that_is_null_is_none(image):
    document = change("REMOVE")
    document["dynamodb"][image] = None
    assert rows("qty int", document) == [{"pk": "p1", "_operation": "delete", "_changed_at": MOMENT}]


def test_a_view_without_new_images_has_the_keys():
    assert rows("qty int not null", change("INSERT"), change(old={"qty": {"N": "1"}})) == [
        {"pk": "p1", "_operation": "insert", "_changed_at": MOMENT},
        {"pk": "p1", "_operation": "update", "_changed_at": MOMENT},
    ]


def test_a_composite_key_has_both_columns():
    keys = {"pk": {"S": "p"}, "sk": {"N": "7"}}
    assert rows("sk long", change("REMOVE", keys=keys), key=("pk", "sk")) == [
        {"pk": "p", "sk": 7, "_operation": "delete", "_changed_at": MOMENT}
    ]


@pytest.mark.parametrize(
    ("at", "precision", "expected"),
    [
        (1_767_323_045_006, "MILLISECOND", datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC)),
        (1_767_323_045_006, None, datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC)),
        (1_767_323_045_000_006, "MICROSECOND", MOMENT),
        (-1, "MICROSECOND", datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    ],
)
def test_the_time_of_a_change_has_its_precision(at, precision, expected):
    [row] = rows("qty int", change(at=at, precision=precision))
    assert row["_changed_at"] == expected


def test_the_time_of_a_record_of_dynamodb_streams_is_in_seconds():
    document = change(at=1_767_323_045, precision=None)
    document["dynamodb"]["SequenceNumber"] = "4421584500000000017450439091"
    [row] = rows("qty int", document)
    assert row["_changed_at"] == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ddl", "attribute", "expected"),
    [
        ("long", {"N": "9223372036854775807"}, 9223372036854775807),
        ("long", {"N": "-9223372036854775808"}, -9223372036854775808),
        ("int", {"N": "1.2E+1"}, 12),
        ("int", {"N": "12.00"}, 12),
        ("byte", {"N": "-0"}, 0),
        ("int", {"N": "0E+125"}, 0),
        ("decimal(38,0)", {"N": "9" * 38}, Decimal("9" * 38)),
        ("decimal(38,3)", {"N": "98765432109876543210.125"}, Decimal("98765432109876543210.125")),
        ("decimal(38,38)", {"N": "1E-38"}, Decimal("1E-38")),
        ("decimal(10,2)", {"N": "12.340"}, Decimal("12.34")),
        ("decimal(10,2)", {"N": "1E+2"}, Decimal("100.00")),
        ("double", {"N": "0.1"}, 0.1),
        ("double", {"N": "1E-130"}, 1e-130),
        ("double", {"N": "-9.9E+125"}, -9.9e125),
        ("double", {"N": "0.30000000000000004"}, 0.30000000000000004),
        ("float", {"N": "0.5"}, 0.5),
        ("string", {"S": ""}, ""),
        ("string", {"S": "é\0😀"}, "é\0😀"),
        ("binary", {"B": "aGk="}, b"hi"),
        ("boolean", {"BOOL": False}, False),
        ("date", {"S": "2026-01-31"}, date(2026, 1, 31)),
        ("timestamp", {"S": "2026-01-02T03:04:05.000006999Z"}, MOMENT),
        ("array<string>", {"SS": ["b", "a"]}, ["b", "a"]),
        ("array<string>", {"L": [{"S": "b"}, {"NULL": True}]}, ["b", None]),
        ("array<decimal(4,1)>", {"NS": ["2", "1.5"]}, [Decimal("2.0"), Decimal("1.5")]),
        ("array<binary>", {"BS": ["aGk=", ""]}, [b"hi", b""]),
        ("array<long>", {"L": []}, []),
        ("array<array<int>>", {"L": [{"L": [{"N": "1"}]}, {"NS": ["2"]}]}, [[1], [2]]),
        (
            "struct<zip: string, no: int>",
            {"M": {"zip": {"S": "1"}, "x": {"N": "1"}}},
            {"zip": "1", "no": None},
        ),
        ("map<string, int>", {"M": {"a": {"N": "1"}, "b": {"NULL": True}}}, {"a": 1, "b": None}),
        (
            "map<string, struct<l: array<struct<n: int>>>>",
            {"M": {"k": {"M": {"l": {"L": [{"M": {"n": {"N": "1"}}}]}}}}},
            {"k": {"l": [{"n": 1}]}},
        ),
        (
            "variant",
            {"M": {"n": {"N": "1.50"}, "l": {"L": [{"S": "x"}, {"NULL": True}, {"BOOL": True}]}}},
            '{"n":1.50,"l":["x",null,true]}',
        ),
        (
            "variant",
            {"NS": ["1", "12345678901234567890123456789012345678"]},
            f"[1,{'1234567890' * 3}12345678]",
        ),
        ("variant", {"SS": ["N", "S"]}, '["N","S"]'),
        ("variant", {"M": {"S": {"S": "a"}}}, '{"S":"a"}'),
        ("variant", {"B": "aGk="}, '"aGk="'),
        ("variant", {"NULL": True}, None),
        ("array<variant>", {"L": [{"N": "1"}]}, ["1"]),
        *(
            (ddl, {"NULL": True}, None)
            for ddl in ("int", "string", "array<int>", "map<string, int>", "struct<a: int>")
        ),
        *(
            (f"array<{element}>", {"NULL": True}, None)
            for element in ("boolean", "array<int>", "map<string, int>", "struct<a: int>", "variant")
        ),
    ],
)
def test_attribute_values(ddl, attribute, expected):
    assert value(ddl, attribute) == expected


NOT_ONE = "Expected one attribute value of DynamoDB - at `$.dynamodb.NewImage.a`"


@pytest.mark.parametrize(
    ("ddl", "attribute", "reason"),
    [
        ("int", {"N": "2147483648"}, "Number out of range - at `$.dynamodb.NewImage.a.N`"),
        ("int", {"N": "1E+125"}, "Number out of range - at `$.dynamodb.NewImage.a.N`"),
        ("int", {"N": "1E+999999999"}, "Number out of range - at `$.dynamodb.NewImage.a.N`"),
        ("int", {"N": f"1E+{'9' * 30}"}, "Number out of range - at `$.dynamodb.NewImage.a.N`"),
        ("int", {"N": "1.5"}, "'1.5' is not an integer - at `$.dynamodb.NewImage.a.N`"),
        ("int", {"N": "1E-130"}, "'1E-130' is not an integer - at `$.dynamodb.NewImage.a.N`"),
        ("int", {"N": "1_0"}, "'1_0' is not a number - at `$.dynamodb.NewImage.a.N`"),
        ("int", {"N": ""}, "'' is not a number - at `$.dynamodb.NewImage.a.N`"),
        ("int", {"N": True}, "Expected `int`, got `bool` - at `$.dynamodb.NewImage.a.N`"),
        ("double", {"N": "NaN"}, "'NaN' is not a number - at `$.dynamodb.NewImage.a.N`"),
        ("double", {"N": "1E+309"}, "Number out of range - at `$.dynamodb.NewImage.a.N`"),
        (
            "double",
            {"N": f"0.{'3' * 22}"},
            f"'0.{'3' * 22}' has more digits than a double; declare a decimal - at `$.dynamodb.NewImage.a.N`",
        ),
        ("decimal(4,2)", {"N": "1.005"}, "'1.005' is not a decimal(4,2) - at `$.dynamodb.NewImage.a.N`"),
        ("decimal(38,9)", {"N": "1E-130"}, "'1E-130' is not a decimal(38,9) - at `$.dynamodb.NewImage.a.N`"),
        ("int", {"S": "1"}, "Object contains unknown field `S` - at `$.dynamodb.NewImage.a`"),
        ("string", {"N": "1"}, "Object contains unknown field `N` - at `$.dynamodb.NewImage.a`"),
        ("binary", {"B": "%"}, "Invalid base64 encoded string - at `$.dynamodb.NewImage.a.B`"),
        ("int", {"NULL": False}, NOT_ONE),
        ("int", {}, NOT_ONE),
        ("int", {"N": "1", "NULL": True}, NOT_ONE),
        ("int", {"N": None}, NOT_ONE),
        ("int", None, "Expected `object`, got `null` - at `$.dynamodb.NewImage.a`"),
        ("int", "1", "Expected `object`, got `str` - at `$.dynamodb.NewImage.a`"),
        ("array<int>", {"SS": ["1"]}, "Object contains unknown field `SS` - at `$.dynamodb.NewImage.a`"),
        ("array<int>", {"L": [], "NS": []}, NOT_ONE),
        (
            "array<struct<b: int>>",
            {"L": [{"M": {"b": {"S": "x"}}}]},
            "Object contains unknown field `S` - at `$.dynamodb.NewImage.a.L[0].M.b`",
        ),
        ("int not null", {"NULL": True}, "Object contains unknown field `NULL` - at `$.dynamodb.NewImage.a`"),
        ("variant not null", {"NULL": True}, "Expected a value, got `null` - at `$.dynamodb.NewImage.a`"),
        ("variant", {"X": "1"}, NOT_ONE),
        ("variant", {"L": [{"N": 1}]}, NOT_ONE),
        ("variant", {"NS": [1]}, NOT_ONE),
    ],
)
def test_attribute_values_that_do_not_fit(ddl, attribute, reason):
    assert value(ddl, attribute) == reason


def test_a_missing_attribute_that_is_required_is_an_error():
    assert rows("a int not null", change(new={})) == [
        "Object missing required field `a` - at `$.dynamodb.NewImage`"
    ]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"eventName": "PURGE"}, "Invalid enum value 'PURGE' - at `$.eventName`"),
        (
            {"dynamodb": {"Keys": {}}},
            "missing required field `ApproximateCreationDateTime` - at `$.dynamodb`",
        ),
        ({"dynamodb": {"ApproximateCreationDateTime": 1}}, "missing required field `Keys` - at `$.dynamodb`"),
        ({"dynamodb": None}, "Expected `object`, got `null` - at `$.dynamodb`"),
    ],
)
def test_records_that_are_no_change(broken, reason):
    [found] = rows("a int", {**change(), **broken})
    assert found.endswith(reason)


AT_TIME = "at `$.dynamodb.ApproximateCreationDateTime`"


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (change(at=10**18), f"1000000000000000000 is out of range - {AT_TIME}"),
        (change(at="1"), f"Expected `int`, got `str` - {AT_TIME}"),
        (change(precision="SECOND"), f"Invalid enum value 'SECOND' - {AT_TIME[:-1]}Precision`"),
        (
            change("REMOVE", keys={"pk": {"N": "1"}}),
            "Object contains unknown field `N` - at `$.dynamodb.Keys.pk`",
        ),
        (
            change("REMOVE", keys={"id": {"N": "1"}}),
            "Expected a value of `pk`, got `null` - at `$.dynamodb.Keys`",
        ),
        (
            change("REMOVE", old={"a": {"S": ""}}),
            "Object contains unknown field `S` - at `$.dynamodb.OldImage.a`",
        ),
        (b"", "Input data was truncated"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ],
)
def test_changes_that_cannot_be_decoded(document, reason):
    assert rows("a int", document) == [reason]


def test_deeply_nested_values_are_an_error():
    deep = b'{"L":[' * 50_000 + b"]}" * 50_000
    document = (
        b'{"eventName":"INSERT","dynamodb":{"ApproximateCreationDateTime":1,"Keys":{},"NewImage":{"a":%b}}}'
    )
    [reason] = rows("a variant", document % deep, key=())
    assert isinstance(reason, str)


def test_source_is_the_record_itself():
    ttl = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
    ddl = "_source struct<tableName: string, userIdentity: struct<principalId: string>>"
    found = rows(ddl, change("REMOVE", userIdentity=ttl), change("REMOVE", userIdentity=None))
    assert [row["_source"] for row in found] == [
        {"tableName": "baskets", "userIdentity": {"principalId": "dynamodb.amazonaws.com"}},
        {"tableName": "baskets", "userIdentity": None},
    ]


@pytest.mark.parametrize(
    ("ddl", "part"),
    [
        ("a map<int, int>", "map with string keys"),
        ("_operation string", "the format adds the column _operation itself"),
        ("_source string", "_source must be a struct"),
    ],
)
def test_schemas_that_cannot_be_used_are_refused(ddl, part):
    with pytest.raises(InvalidInput, match=part):
        rows(ddl)


def test_a_schema_without_columns_is_refused():
    with pytest.raises(InvalidInput, match="give a struct"):
        DynamoDB(spark_type("long")).resolved()
