"""What is requested of all workers that derive tables, ours and a peer's; so it imports no library.

The URL of a request is a folder with the table `RAW`, and its stream names the work: `TYPED` decodes orders
of `Payloads` into a new table `DERIVED` beside it. `APPEND` and `UPSERT` decode orders of `payload_of_order`
into a table `DERIVED` that exists, `UPSERT_ICEBERG` into an Iceberg table. `ROUTED` routes the orders of
`Payloads` by their channel to a new table for each, which is `DERIVED` with the channel behind it. Results
have the number of rows, and no size.
"""

from __future__ import annotations

import json

TYPED, APPEND, UPSERT, UPSERT_ICEBERG, ROUTED = "typed", "append", "upsert", "upsert-iceberg", "routed"

RAW, DERIVED, ROUTER = "raw", "orders", "router"

KEY, NEWEST_BY = "id", "at"
ORDER = "id BIGINT, at TIMESTAMP, item STRING, amount DOUBLE"
"""The type of an order, as DDL of Spark."""

ITEMS = 5000
"""Number of different items."""


def payload_of_order(number: int) -> bytes:
    """Return the order with a key in JSON. It is newer than the one in `order_tables.OrderFiles`."""
    order = {
        "id": number,
        "at": "2026-11-01T12:00:00Z",
        "item": f"item {number % ITEMS}",
        "amount": number / 8,
    }
    return json.dumps(order).encode()
