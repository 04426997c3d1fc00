"""Numbers of variable length, as in Protobuf, Avro and snappy: seven bits in each byte, the lowest first."""

from __future__ import annotations

_BYTES_OF_32_BITS = 5


def read_varint(data: bytes, start: int = 0, *, max_bytes: int = _BYTES_OF_32_BITS) -> tuple[int, int] | None:
    """Return the number that starts at a place, and the place after it; None if it does not end."""
    number = 0
    for place, byte in enumerate(data[start : start + max_bytes]):
        number |= (byte & 0x7F) << 7 * place
        if not byte & 0x80:  # the last byte
            return number, start + place + 1
    return None
