"""A Protobuf message has the columns that its values need. What no column represents is refused."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.protobuf_schema import messages, protobuf_columns, read_files, read_message
from support.mentions import assert_mentions
from support.protobuf import descriptor_set


def columns(body: str, imports: str = "", name: str = "shop.Order", syntax: str = "proto3") -> str:
    definition = f'syntax = "{syntax}"; package shop; {imports} {body}'
    return protobuf_columns(read_message(descriptor_set(definition), name))


@pytest.mark.parametrize(
    ("declared", "column"),
    [
        ("bool a = 1;", "a BOOLEAN"),
        ("bytes a = 1;", "a BINARY"),
        ("double a = 1;", "a DOUBLE"),
        ("fixed32 a = 1;", "a BIGINT"),
        ("fixed64 a = 1;", "a DECIMAL(20, 0)"),
        ("float a = 1;", "a FLOAT"),
        ("int32 a = 1;", "a INT"),
        ("int64 a = 1;", "a BIGINT"),
        ("sfixed32 a = 1;", "a INT"),
        ("sfixed64 a = 1;", "a BIGINT"),
        ("sint32 a = 1;", "a INT"),
        ("sint64 a = 1;", "a BIGINT"),
        ("string a = 1;", "a STRING"),
        ("uint32 a = 1;", "a BIGINT"),
        ("uint64 a = 1;", "a DECIMAL(20, 0)"),
        ("enum E { NONE = 0; } E a = 1;", "a STRING"),
        ("optional int32 a = 1;", "a INT"),
        ("repeated int32 a = 1;", "a ARRAY<INT>"),
        ("map<string, int64> a = 1;", "a MAP<STRING, BIGINT>"),
        ("map<uint64, bytes> a = 1;", "a MAP<STRING, BINARY>"),
        ("message Item { string sku = 1; } Item a = 1;", "a STRUCT<sku: STRING>"),
        ("message Item { string sku = 1; } repeated Item a = 1;", "a ARRAY<STRUCT<sku: STRING>>"),
        ("message Item { string sku = 1; } map<string, Item> a = 1;", "a MAP<STRING, STRUCT<sku: STRING>>"),
        ("oneof b { string a = 1; int32 c = 2; }", "a STRING, c INT"),
        ("message Nothing {} Nothing a = 1;", "a BOOLEAN"),
    ],
)
def test_each_type_has_a_column(declared, column):
    assert columns(f"message Order {{ {declared} }}") == column


@pytest.mark.parametrize(
    ("kind", "file", "column"),
    [
        ("Any", "any", "a STRUCT<type_url: STRING, value: BINARY>"),
        ("BoolValue", "wrappers", "a BOOLEAN"),
        ("BytesValue", "wrappers", "a BINARY"),
        ("Duration", "duration", "a DECIMAL(21, 9)"),
        ("Empty", "empty", "a BOOLEAN"),
        ("Int64Value", "wrappers", "a BIGINT"),
        ("ListValue", "struct", "a VARIANT"),
        ("StringValue", "wrappers", "a STRING"),
        ("Struct", "struct", "a VARIANT"),
        ("Timestamp", "timestamp", "a TIMESTAMP"),
        ("UInt64Value", "wrappers", "a DECIMAL(20, 0)"),
        ("Value", "struct", "a VARIANT"),
    ],
)
def test_well_known_messages_have_the_type_of_what_they_mean(kind, file, column):
    imports = f'import "google/protobuf/{file}.proto";'
    assert columns(f"message Order {{ google.protobuf.{kind} a = 1; }}", imports) == column


def test_a_message_that_only_has_the_name_of_a_well_known_one_is_a_struct():
    definition = 'syntax = "proto3"; package google.protobuf; message Timestamp { string text = 1; }'
    assert (
        protobuf_columns(read_message(descriptor_set(definition), "google.protobuf.Timestamp"))
        == "text STRING"
    )


def test_a_group_of_proto2_is_a_struct():
    assert columns("message Order { repeated group A = 1 { optional int32 b = 2; } }", syntax="proto2") == (
        "a ARRAY<STRUCT<b: INT>>"
    )


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ("message Order { Order parent = 1; }", "parent is a part of shop.Order"),
        ("message Order { Item item = 1; } message Item { repeated Item items = 1; }", "item.items"),
        ("message Order { Item item = 1; } message Item { map<string, Order> by_id = 1; }", "item.by_id"),
    ],
)
def test_a_recursive_message_is_refused(body, path):
    with pytest.raises(InvalidInput, match=rf"shop.Order is recursive: {path}"):
        columns(body)


def test_a_message_may_be_used_twice():
    assert columns("message Money { int64 cents = 1; } message Order { Money a = 1; Money b = 2; }") == (
        "a STRUCT<cents: BIGINT>, b STRUCT<cents: BIGINT>"
    )


def test_a_message_without_fields_has_no_columns():
    with pytest.raises(InvalidInput, match=r"shop.Order has no fields"):
        columns("message Order {}")


def test_an_unknown_message_is_refused_with_the_names_of_the_others():
    with pytest.raises(InvalidInput) as refused:
        columns("message Order { message Item { int32 a = 1; } Item item = 1; }", name="Order")
    assert_mentions(str(refused.value), "no message Order", "shop.Order", "shop.Order.Item")


def test_a_descriptor_set_without_its_imports_is_refused():
    file = FileDescriptorProto(name="a.proto", dependency=["common/money.proto"])
    with pytest.raises(
        InvalidInput, match=r"lacks common/money.proto, which a.proto imports.*include_imports"
    ):
        read_files(FileDescriptorSet(file=[file]).SerializeToString())


def test_the_files_of_protobuf_itself_need_not_be_in_the_descriptor_set():
    definition = (
        'syntax = "proto3"; import "google/protobuf/timestamp.proto";'
        "message Order { google.protobuf.Timestamp at = 1; }"
    )
    alone = descriptor_set(definition, include_imports=False)
    assert protobuf_columns(read_message(alone, "Order")) == "at TIMESTAMP"


def test_the_files_of_a_descriptor_set_may_have_any_order():
    money = FileDescriptorProto(name="money.proto", package="shop")
    money.message_type.add(name="Money").field.add(name="cents", number=1, type="TYPE_INT64", label=1)
    order = FileDescriptorProto(name="order.proto", package="shop", dependency=["money.proto"])
    order.message_type.add(name="Order").field.add(
        name="price", number=1, type="TYPE_MESSAGE", type_name=".shop.Money", label=1
    )
    descriptors = FileDescriptorSet(file=[order, money]).SerializeToString()
    assert protobuf_columns(read_message(descriptors, "shop.Order")) == "price STRUCT<cents: BIGINT>"


@pytest.mark.parametrize("content", [b"\xff", b'syntax = "proto3";', b"\x0a\x05ab"])
def test_bytes_that_are_no_descriptor_set_are_refused(content):
    with pytest.raises(InvalidInput, match="not a descriptor set"):
        read_files(content)


def test_a_definition_that_contradicts_itself_is_refused():
    file = FileDescriptorProto(name="a.proto")
    file.message_type.add(name="A").field.add(
        name="b", number=1, type="TYPE_MESSAGE", type_name=".Missing", label=1
    )
    with pytest.raises(InvalidInput, match=r"a.proto"):
        read_files(FileDescriptorSet(file=[file]).SerializeToString())


def test_messages_are_found_in_the_order_of_their_definition():
    definition = 'syntax = "proto3"; message B { message D { message X {} } message C {} } message A {}'
    (file,) = read_files(descriptor_set(definition))
    assert [each.full_name for each in messages(file)] == ["B", "B.D", "B.D.X", "B.C", "A"]
