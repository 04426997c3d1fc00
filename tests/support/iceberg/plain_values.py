"""Values of rows as JSON can have them, so that those of several readers can be compared."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any


def plain(value: Any) -> Any:
    """Return a value without types that only some readers have. Times without a zone are in UTC."""
    match value:
        case bytes() | bytearray():
            return {"hex": bytes(value).hex()}
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
        case date() | Decimal():
            return str(value)
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
    return plain(value.asDict()) if hasattr(value, "asDict") else value
