"""Samples of records in the shapes that streams have, with what `infer` proposes for each, and its rows."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa

from support.glue_records import avro, framed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Shape:
    """A sample.

    Attributes:
        proposed: The settings that are proposed, without `name`, `source` and `table`.
        rows: The values of each good row that are not null, by table: typed, or the value of its route. There
            are none if the proposal has a placeholder for the schema.
    """

    records: Sequence[bytes]
    proposed: Mapping[str, Any]
    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    comments: Sequence[str] = ()


def text(*documents: Any) -> list[bytes]:
    """Return documents of JSON."""
    return [json.dumps(each).encode() for each in documents]


def container(schema: Any, *values: Any) -> bytes:
    """Return an Avro object container."""
    out = BytesIO()
    fastavro.writer(out, schema, values)
    return out.getvalue()


def at(second: int, microsecond: int = 0) -> datetime:
    return datetime(2026, 5, 1, 8, 0, second, microsecond, tzinfo=UTC)


def connect(name: str, kind: str, logical: str | None = None, **parameters: str) -> dict[str, Any]:
    """Return the schema of a column."""
    of_type = {"name": logical} if logical else {}
    return {"field": name, "type": kind, "optional": True, **of_type, "parameters": parameters}


_COLUMNS = [
    connect("member", "int64"),
    connect("since", "int32", "io.debezium.time.Date"),
    connect("seen", "int64", "io.debezium.time.MicroTimestamp"),
    connect(
        "credit",
        "bytes",
        "org.apache.kafka.connect.data.Decimal",
        **{"scale": "2", "connect.decimal.precision": "9"},
    ),
    connect("motto", "string"),
]
_ENVELOPE = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": _COLUMNS}]}


def member(letter: str, lsn: int, before: Any, after: Any) -> bytes:
    """Return a change of a table that Debezium has captured."""
    source = {"table": "members", "lsn": lsn, "ts_ms": 1777622400000 + lsn}
    return text(
        {"schema": _ENVELOPE, "payload": {"op": letter, "before": before, "after": after, "source": source}}
    )[0]


def attribute(kind: str, at_: int, keys: Any, image: Any = None) -> dict[str, Any]:
    """Return a change of a table of DynamoDB."""
    images = {} if image is None else {"NewImage": keys | image}
    change = {"ApproximateCreationDateTime": 1777622400000 + at_, "Keys": keys, **images}
    return {"eventName": kind, "tableName": "trips", "dynamodb": change}


def captured(table: str, operation: str, second: int, **data: Any) -> dict[str, Any]:
    """Return a change of AWS DMS."""
    metadata = {
        "timestamp": f"2026-05-01T08:00:{second:02}Z",
        "record-type": "data" if data else "control",
        "operation": operation,
        "schema-name": "fleet",
        "table-name": table,
    }
    return {"metadata": metadata} | ({"data": data} if data else {})


def parcel(number: int) -> dict[str, Any]:
    return {"detail-type": "Parcel Sent", "source": "depot", "detail": {"parcel": number, "kilos": 0.5}}


def courier(number: int) -> dict[str, Any]:
    return {
        "detail-type": "Courier Joined",
        "source": "depot",
        "detail": {"courier": f"c{number}", "parcel": "none"},
    }


def log(kind: str, *messages: str) -> bytes:
    events = [{"id": f"i{each}", "timestamp": 1777622400000, "message": each} for each in messages]
    return gzip.compress(text({"messageType": kind, "logGroup": "/depot", "logEvents": events})[0])


_READING = {"type": "record", "name": "Reading", "fields": [{"name": "celsius", "type": "double"}]}
GLUE_ID = "5d7c0d6e-3b53-4c61-9f0d-7a6d8f1f2b11"

SHAPES = {
    "documents, some in gzip": Shape(
        [
            gzip.compress(text({"box": 1, "day": "2026-05-01"})[0]),
            *text({"box": 2, "day": None}),
            b"\x1f\x8bno",
        ],
        {"format": "json", "compression": "auto", "schema": "box BIGINT,\nday DATE"},
        {"typed": [{"box": 1, "day": date(2026, 5, 1)}, {"box": 2}]},
        ["1 of them cannot be decompressed", "day: 1 DATE, 1 without a value"],
    ),
    "snappy blocks": Shape(
        [pa.Codec("snappy").compress(each, asbytes=True) for each in text({"box": 3}, {"box": 4})],
        {"format": "json", "compression": "snappy", "schema": "box BIGINT"},
        {"typed": [{"box": 3}, {"box": 4}]},
    ),
    "lines": Shape(
        [b'\xef\xbb\xbf{"box": 5}\nbroken\r\n\n{"box": 6}\n', b'{"box": 7}\n'],
        {"format": "json", "split": "lines", "schema": "box BIGINT"},
        {"typed": [{"box": 5}, {"box": 6}, {"box": 7}]},
        ["They have 4 documents", "1 of them are not JSON objects, and would be kept"],
    ),
    "documents in a row": Shape(
        [b'{"box": 8}{"box": 9} {\n"box": 10}', b'{"box": 11}'],
        {"format": "json", "split": "documents", "schema": "box BIGINT"},
        {"typed": [{"box": 8}, {"box": 9}, {"box": 10}, {"box": 11}]},
    ),
    "arrays": Shape(
        [b'[{"box": 12}, {"box": 13}]', b'[{"box": 14}]', b'{"box": 15}'],
        {"format": "json", "split": "array", "schema": "box BIGINT"},
        {"typed": [{"box": 12}, {"box": 13}, {"box": 14}]},
        ["1 of them are not JSON arrays, and would be kept", "They have 3 documents"],
    ),
    "logs of CloudWatch": Shape(
        [log("DATA_MESSAGE", "start", "stop"), log("CONTROL_MESSAGE", "probe")],
        {
            "format": "json",
            "compression": "gzip",
            "unnest": "logEvents",
            "only": {"messageType": "DATA_MESSAGE"},
            "schema": "messageType STRING,\nlogGroup STRING,\n"
            "logEvents STRUCT<id: STRING, timestamp: BIGINT, message: STRING>",
            "select": ["messageType", "logGroup", "logEvents.*"],
        },
        {
            "typed": [
                {
                    "messageType": "DATA_MESSAGE",
                    "logGroup": "/depot",
                    "id": f"i{each}",
                    "timestamp": 1777622400000,
                    "message": each,
                }
                for each in ("start", "stop")
            ]
        },
        ["logEvents has 3 objects in 2 documents", "1 rows are of control messages"],
    ),
    "kinds of events": Shape(
        text(parcel(1), courier(1), parcel(2), courier(2), parcel(3), courier(3), parcel(4)),
        {
            "format": "json",
            "route_by": "detail-type",
            "routes": [
                {
                    "match": "Parcel Sent",
                    "schema": "`detail-type` STRING,\nsource STRING,\n"
                    "detail STRUCT<parcel: BIGINT, kilos: DOUBLE>",
                    "select": ["`detail-type` AS detail_type", "source", "detail"],
                },
                {
                    "match": "Courier Joined",
                    "schema": "`detail-type` STRING,\nsource STRING,\n"
                    "detail STRUCT<courier: STRING, parcel: STRING>",
                    "select": ["`detail-type` AS detail_type", "source", "detail"],
                },
            ],
        },
        {
            "Parcel Sent": [
                {"detail_type": "Parcel Sent", "source": "depot", "detail": {"parcel": each, "kilos": 0.5}}
                for each in (1, 2, 3, 4)
            ],
            "Courier Joined": [
                {
                    "detail_type": "Courier Joined",
                    "source": "depot",
                    "detail": {"courier": each, "parcel": "none"},
                }
                for each in ("c1", "c2", "c3")
            ],
        },
        ["detail-type is Parcel Sent in 4 of 7 documents (57.1%).", "Courier Joined: detail: 3 STRUCT"],
    ),
    "a kind that nearly all have": Shape(
        text(*[{"kind": "ride", "km": each} for each in range(57)], *[{"kind": "ping", "ok": True}] * 3),
        {"format": "json", "only": {"kind": "ride"}, "schema": "kind STRING,\nkm BIGINT"},
        {"typed": [{"kind": "ride", "km": each} for each in range(57)]},
        ["kind is ride in 57 of 60 documents (95.0%).", "kind is ping in 3 of 60 documents (5.0%)."],
    ),
    "comma-separated values": Shape(
        [
            b'stop,name,lat\n1,"Mill, East",52.5\n2,Quay,-1\n',
            b"stop,name,lat\n3,,0.25\nfour,x\n5,caf\xe9,1\n",
        ],
        {"format": "csv", "split": "lines", "schema": "stop BIGINT,\nname STRING,\nlat DOUBLE"},
        {
            "typed": [
                {"stop": 1, "name": "Mill, East", "lat": 52.5},
                {"stop": 2, "name": "Quay", "lat": -1.0},
                {"stop": 3, "lat": 0.25},
            ]
        },
        [
            "They have 7 rows",
            "1 of them are not UTF-8",
            "1 of them do not have 3 values",
            "2 of them are headers",
            "name: 2 STRING, 1 without a value",
        ],
    ),
    "tab-separated values": Shape(
        [b"7\ttrue\t2026-05-01T08:00:01Z", b"8\tfalse\t2026-05-01T08:00:02Z"],
        {"format": "tsv", "schema": "column_1 BIGINT,\ncolumn_2 BOOLEAN,\ncolumn_3 TIMESTAMP"},
        {
            "typed": [
                {"column_1": 7, "column_2": True, "column_3": at(1)},
                {"column_1": 8, "column_2": False, "column_3": at(2)},
            ]
        },
        ["There is no header"],
    ),
    "changes of DynamoDB": Shape(
        text(
            attribute(
                "INSERT", 1, {"trip": {"S": "t1"}}, {"fare": {"N": "12.50"}, "via": {"SS": ["a", "b"]}}
            ),
            attribute("MODIFY", 2, {"trip": {"S": "t1"}}, {"fare": {"N": "3E+2"}, "note": {"NULL": True}}),
            attribute("REMOVE", 3, {"trip": {"S": "t1"}}),
        ),
        {
            "format": "dynamodb",
            "schema": "trip STRING,\nfare DECIMAL(38, 1),\nvia ARRAY<STRING>,\nnote STRING",
            "key": ["trip"],
        },
        {
            "typed": [
                {"trip": "t1", "fare": Decimal("12.5"), "via": ["a", "b"], "_operation": "insert"}
                | {"_changed_at": at(0, 1000)},
                {"trip": "t1", "fare": Decimal("300.0"), "_operation": "update", "_changed_at": at(0, 2000)},
                {"trip": "t1", "_operation": "delete", "_changed_at": at(0, 3000)},
            ]
        },
        ["key: trip, by the Keys of 3 changes", "fare: 1 DECIMAL, 1 BIGINT, 1 without a value"],
    ),
    "changes of two tables by DMS": Shape(
        text(
            captured("buses", "create-table", 0),
            captured("buses", "load", 1, bus_id=1, price="99.90"),
            captured("buses", "update", 2, bus_id=1, price=100),
            captured("drivers", "insert", 3, name="Ida", id="d7"),
            captured("drivers", "delete", 4, name="Ida", id="d7"),
        ),
        {
            "format": "dms",
            "route_by": "metadata.table-name",
            "routes": [
                {"match": "buses", "schema": "bus_id BIGINT,\nprice DECIMAL(38, 1)", "key": ["bus_id"]},
                {"match": "drivers", "schema": "name STRING,\nid STRING", "key": ["id"]},
            ],
        },
        {
            "buses": [
                {"bus_id": 1, "price": Decimal("99.9"), "_operation": "load", "_changed_at": at(1)},
                {"bus_id": 1, "price": Decimal("100.0"), "_operation": "update", "_changed_at": at(2)},
            ],
            "drivers": [
                {"name": "Ida", "id": "d7", "_operation": "insert", "_changed_at": at(3)},
                {"name": "Ida", "id": "d7", "_operation": "delete", "_changed_at": at(4)},
            ],
        },
        [
            "metadata.table-name is buses in 3 of 5 documents (60.0%).",
            "buses: price has numbers as text (1)",
            "buses: key: bus_id, by its name.",
        ],
    ),
    "changes by Debezium": Shape(
        [
            member(
                "c",
                20,
                None,
                {"member": 4, "since": 20574, "seen": 1777622403000001, "credit": "BNI=", "motto": "on"},
            ),
            member("u", 21, None, {"member": 4, "motto": "__debezium_unavailable_value"}),
            member("d", 22, {"member": 4}, None),
            b"default",
        ],
        {
            "format": "debezium",
            "schema": "member BIGINT,\nsince DATE,\nseen TIMESTAMP_NTZ,\ncredit DECIMAL(9, 2),\nmotto STRING",
            "key": ["member"],
        },
        {
            "typed": [
                {
                    "member": 4,
                    "since": date(2026, 5, 1),
                    "seen": datetime(2026, 5, 1, 8, 0, 3, 1),  # noqa: DTZ001  # it has no time zone
                    "credit": Decimal("12.34"),
                    "motto": "on",
                    "_operation": "insert",
                    "_changed_at": at(0, 20000),
                    "_position": "00000000000000000020",
                },
                {
                    "member": 4,
                    "_operation": "update",
                    "_changed_at": at(0, 21000),
                    "_position": "00000000000000000021",
                    "_unchanged": ["motto"],
                },
                {
                    "member": 4,
                    "_operation": "delete",
                    "_changed_at": at(0, 22000),
                    "_position": "00000000000000000022",
                },
            ]
        },
        ["1 of them are tombstones", "key: member, by what 1 rows before changes have"],
    ),
    "Avro object containers": Shape(
        [container(_READING, {"celsius": 4.5}, {"celsius": 5.0}), container(_READING, {"celsius": 6.0})],
        {"format": "avro_container", "schema": "celsius DOUBLE"},
        {"typed": [{"celsius": 4.5}, {"celsius": 5.0}, {"celsius": 6.0}]},
        ["2 of 2 containers have this schema"],
    ),
    "records of the Glue Schema Registry": Shape(
        [
            framed(GLUE_ID, avro(_READING, {"celsius": 7.5})),
            b"",
            framed(GLUE_ID, avro(_READING, {"celsius": 8.0})),
        ],
        {"format": "glue", "schema": {"registry": "NAME_OF_THE_REGISTRY", "name": "NAME_OF_THE_SCHEMA"}},
        {},
        [
            f"2 of them have the schema {GLUE_ID}.",
            "Give the name of the registry",
            "1 of them do not have the header",
        ],
    ),
    "Avro of Confluent's Schema Registry": Shape(
        [b"\x00\x00\x00\x00\x11" + avro(_READING, {"celsius": 9.5})],
        {
            "format": "confluent",
            "schema": {"subject": "NAME_OF_THE_SUBJECT"},
            "registry": {"url": "https://registry.example:8081"},
        },
        {},
        ["1 of them have the schema 17.", "Give the subject"],
    ),
    "JSON of Confluent's Schema Registry": Shape(
        [b"\x00\x00\x00\x00\x12" + each for each in text({"box": 16}, {"box": 17})],
        {"format": "confluent", "schema": "box BIGINT", "registry": {"url": "https://registry.example:8081"}},
        {"typed": [{"box": 16}, {"box": 17}]},
        ["Give the address of the registry."],
    ),
}
"""By what the records are."""
