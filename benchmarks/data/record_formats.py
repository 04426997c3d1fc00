"""The same orders in records of different formats, and the decoders of each.

A change has the order before it too, as DynamoDB streams with both images and PostgreSQL with
`REPLICA IDENTITY FULL` write it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass

from benchmarks.data.payloads import PAYLOAD
from kinesis_assets.decoders import Debezium, DynamoDB, Json, Protobuf, Split
from kinesis_assets.schemas.protobuf_schema import read_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kinesis_assets.decoders import Decoder

DOCUMENTS, LINES, DEBEZIUM, DYNAMODB, PROTOBUF = "documents", "lines", "debezium", "dynamodb", "protobuf"

LINES_OF_RECORD = 100

_KEY = "event_id"
_CHANGED_AT = 1_793_000_000_000_000
"""The microseconds since 1970 of the changes."""


@dataclass(frozen=True)
class RecordFormat:
    """A format.

    Attributes:
        records: Returns the records with some orders, which are documents in JSON.
        decoders: The decoders of such a record.
        orders: Number of orders in a record.
    """

    records: Callable[[Iterable[bytes]], Iterable[bytes]]
    decoders: Sequence[Decoder]
    orders: int = 1


def _lines(orders: Iterable[bytes]) -> Iterator[bytes]:
    rest = iter(orders)
    while lines := list(islice(rest, LINES_OF_RECORD)):
        yield b"\n".join((*lines, b""))


def _debezium(order: dict[str, Any]) -> dict[str, Any]:
    """Return the envelope of an update, as the connector for PostgreSQL writes it without its schema."""
    return {
        "before": {**order, "total_cents": order["total_cents"] + 100},
        "after": order,
        "source": {
            "version": "3.3.1.Final",
            "connector": "postgresql",
            "name": "shop",
            "ts_ms": _CHANGED_AT // 1_000,
            "snapshot": "false",
            "db": "shop",
            "sequence": '["24023119","24023128"]',
            "ts_us": _CHANGED_AT,
            "ts_ns": _CHANGED_AT * 1_000,
            "schema": "public",
            "table": "orders",
            "txId": 771,
            "lsn": 24_023_128 + order["total_cents"],
            "xmin": None,
        },
        "transaction": None,
        "op": "u",
        "ts_ms": _CHANGED_AT // 1_000 + 210,
        "ts_us": _CHANGED_AT + 210_345,
        "ts_ns": _CHANGED_AT * 1_000 + 210_345_678,
    }


def _dynamodb(order: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a modification."""
    image = _attribute(order)["M"]
    return {
        "awsRegion": "eu-west-1",
        "eventID": f"{order['session']}-{order['event_id']}",
        "eventName": "MODIFY",
        "userIdentity": None,
        "recordFormat": "application/json",
        "tableName": "orders",
        "dynamodb": {
            "ApproximateCreationDateTime": _CHANGED_AT,
            "Keys": {_KEY: image[_KEY]},
            "NewImage": image,
            "OldImage": {**image, "total_cents": _attribute(order["total_cents"] + 100)},
            "SizeBytes": 1_240,
            "ApproximateCreationDateTimePrecision": "MICROSECOND",
        },
        "eventSource": "aws:dynamodb",
    }


def _attribute(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return {"M": {name: _attribute(each) for name, each in value.items()}}
    return {"N": str(value)} if isinstance(value, int) else {"S": value}


def _in_json(change: Callable[[dict[str, Any]], dict[str, Any]], orders: Iterable[bytes]) -> Iterator[bytes]:
    for order in orders:
        yield json.dumps(change(json.loads(order)), separators=(",", ":")).encode()


_MESSAGES = {
    "Customer": {"id": "TYPE_INT64", "country": "TYPE_STRING"},
    "Item": {"sku": "TYPE_STRING", "count": "TYPE_INT32"},
    "Order": {
        "event_id": "TYPE_STRING",
        "type": "TYPE_STRING",
        "channel": "TYPE_STRING",
        "placed_at": ".google.protobuf.Timestamp",
        "customer": ".shop.Customer",
        "item": ".shop.Item",
        "session": "TYPE_STRING",
        "total_cents": "TYPE_INT64",
        "note": "TYPE_STRING",
    },
}
"""The fields of messages with the types of `PAYLOAD`, in the order of their numbers."""


def _descriptor_set() -> bytes:
    descriptors = FileDescriptorSet()
    file = descriptors.file.add(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    file.message_type.extend(_message(name, fields) for name, fields in _MESSAGES.items())
    return bytes(descriptors.SerializeToString())


def _message(name: str, fields: dict[str, str]) -> DescriptorProto:
    message = DescriptorProto(name=name)
    for number, (field, kind) in enumerate(fields.items(), start=1):
        is_message = kind.startswith(".")
        message.field.add(
            name=field,
            number=number,
            label=FieldDescriptorProto.LABEL_OPTIONAL,
            type=FieldDescriptorProto.Type.Value("TYPE_MESSAGE" if is_message else kind),
            type_name=kind if is_message else None,
        )
    return message


_DESCRIPTORS, _ORDER = _descriptor_set(), "shop.Order"


def _protobuf(orders: Iterable[bytes]) -> Iterator[bytes]:
    message = GetMessageClass(read_message(_DESCRIPTORS, _ORDER))
    for order in orders:
        yield json_format.Parse(order, message()).SerializeToString()


RECORD_FORMATS = {
    DOCUMENTS: RecordFormat(iter, [Json(PAYLOAD)]),
    LINES: RecordFormat(_lines, [Split("lines"), Json(PAYLOAD)], LINES_OF_RECORD),
    DEBEZIUM: RecordFormat(partial(_in_json, _debezium), [Debezium(PAYLOAD, (_KEY,))]),
    DYNAMODB: RecordFormat(partial(_in_json, _dynamodb), [DynamoDB(PAYLOAD, (_KEY,))]),
    PROTOBUF: RecordFormat(_protobuf, [Protobuf(_DESCRIPTORS, _ORDER, PAYLOAD)]),
}
"""By their names, by which requests name the work of a derived table too."""
