"""Payloads that compress like real events: orders in JSON, padded to a size with a note in words."""

from __future__ import annotations

import json
import random

_SYLLABLES = [
    "ka",
    "lo",
    "mi",
    "ten",
    "ra",
    "ves",
    "ho",
    "sun",
    "di",
    "per",
    "qua",
    "lis",
    "ton",
    "be",
    "gra",
]
_COUNTRIES = ["AT", "BE", "CH", "DE", "DK", "ES", "FI", "FR", "IT", "NL", "NO", "PL", "SE"]
CHANNELS = ["web", "app", "store", "phone", "partner"]


PAYLOAD = (
    "event_id STRING, type STRING, channel STRING, placed_at TIMESTAMP, "
    "customer STRUCT<id: BIGINT, country: STRING>, item STRUCT<sku: STRING, count: INT>, "
    "session STRING, total_cents BIGINT, note STRING"
)
"""The type of a payload, as DDL of Spark."""


class Payloads:
    """A generator of payloads, with the same sequence in every process.

    An order has unique ids, a time, amounts, and a few different names. About half of its bytes are a note
    that consists of words drawn from 3,000.
    """

    def __init__(self) -> None:
        self._random = random.Random(20260)
        self._words = ["".join(self._random.choices(_SYLLABLES, k=1 + n % 4)) for n in range(3000)]

    def payload(self, size: int) -> bytes:
        """Return a payload of exactly this size; from 400 bytes on, it is a complete JSON document."""
        rng = self._random
        order = {
            "event_id": f"{rng.getrandbits(128):032x}",
            "type": "order_placed",
            "channel": rng.choice(CHANNELS),
            "placed_at": f"2026-11-{rng.randrange(1, 30):02}T{rng.randrange(24):02}:"
            f"{rng.randrange(60):02}:{rng.randrange(60):02}.{rng.randrange(1000):03}Z",
            "customer": {"id": rng.randrange(10**9), "country": rng.choice(_COUNTRIES)},
            "item": {"sku": f"{rng.getrandbits(40):010X}", "count": rng.randrange(1, 9)},
            "session": f"{rng.getrandbits(96):024x}",
            "total_cents": rng.randrange(100, 500_000),
            "note": "",
        }
        document = json.dumps(order, separators=(",", ":"))
        padding = size - len(document)
        if padding < 0:
            return document[:size].encode()
        note = " ".join(rng.choices(self._words, k=padding // 4 + 1))[:padding].ljust(padding, ".")
        return f'{document[:-2]}{note}"}}'.encode()
