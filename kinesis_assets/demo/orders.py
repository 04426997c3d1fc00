"""Order records of an online shop, about 1 KB of JSON each."""

from __future__ import annotations

import hashlib
import json
import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

STREAM = "orders"
_BATCH = 500  # the maximum of PutRecords
_STREETS = ("Hauptstraße", "Rue de la Paix", "High Street", "Via Roma", "Calle Mayor", "Kerkstraat")
_CITIES = ("Berlin", "Lyon", "Leeds", "Torino", "Sevilla", "Utrecht")
_GOODS = ("espresso cups", "linen towel", "oak shelf", "reading lamp", "wool blanket", "cast iron pan")


def order(number: int) -> dict[str, Any]:
    """Create the order with this number, which is always the same. Its customer is the partition key."""
    draw = random.Random(number)  # noqa: S311  # made-up orders
    lines: list[dict[str, Any]] = [
        {
            "sku": f"SKU-{draw.randrange(10**8):08d}",
            "title": draw.choice(_GOODS),
            "quantity": draw.randint(1, 4),
            "unit_price_cents": draw.randint(300, 25_000),
        }
        for _ in range(draw.randint(4, 7))
    ]
    place = draw.randrange(len(_CITIES))
    return {
        "order_id": f"ord-{number:010d}",
        "customer_id": f"cust-{draw.randrange(5_000):05d}",
        "placed_at_ms": 1_767_225_600_000 + number * 1_000,
        "channel": draw.choice(["web", "app", "store"]),
        "currency": "EUR",
        "lines": lines,
        "total_cents": sum(line["quantity"] * line["unit_price_cents"] for line in lines),
        "ship_to": {
            "street": f"{_STREETS[place]} {draw.randint(1, 200)}",
            "city": _CITIES[place],
            "postcode": f"{draw.randrange(10**5):05d}",
        },
        "payment": {
            "method": draw.choice(["card", "invoice", "wallet"]),
            "reference": draw.randbytes(16).hex(),
        },
        "note": "Please leave the parcel with the neighbours if nobody opens. " * draw.randint(1, 4),
    }


def put_orders(kinesis: Any, first: int, count: int) -> Iterator[list[tuple[str, str, str]]]:
    """Put orders in batches.

    Yields:
        For each batch, (shard id, sequence number, SHA-256 of the data) of each acknowledged record.
    """
    for start in range(first, first + count, _BATCH):
        orders = [order(number) for number in range(start, min(start + _BATCH, first + count))]
        data = [json.dumps(each, ensure_ascii=False).encode() for each in orders]
        entries = [
            {"Data": content, "PartitionKey": each["customer_id"]}
            for content, each in zip(data, orders, strict=True)
        ]
        response = kinesis.put_records(StreamName=STREAM, Records=entries)
        yield [
            (put["ShardId"], put["SequenceNumber"], hashlib.sha256(content).hexdigest())
            for put, content in zip(response["Records"], data, strict=True)
            if "SequenceNumber" in put
        ]
