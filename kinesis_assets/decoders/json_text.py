"""Values of any type, which are kept as JSON text."""

from __future__ import annotations

from typing import Any, Self

import msgspec

_ENCODER = msgspec.json.Encoder(decimal_format="number")


class JsonText(str):
    """The JSON text of a value. It has the value's digits, but not its whitespace."""

    __slots__ = ()

    @classmethod
    def of(cls, value: Any) -> Self:
        """Convert a decoded value, whose numbers have not been rounded."""
        if value is None:
            raise ValueError("Expected a value, got `null`")
        return cls(_ENCODER.encode(value).decode())
