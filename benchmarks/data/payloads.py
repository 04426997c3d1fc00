"""Payloads that compress as events do: JSON of orders, filled up to a size with words of a note."""

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
_CHANNELS = ["web", "app", "store", "phone", "partner"]


class Payloads:
    """A source of payloads, the same ones at every start.

    An order has ids that do not repeat, a time, amounts, and few different names: about half of its bytes
    are a note in words drawn from 3,000.
    """

    def __init__(self) -> None:
        self._chance = random.Random(20260)
        self._words = ["".join(self._chance.choices(_SYLLABLES, k=1 + n % 4)) for n in range(3000)]

    def payload(self, size: int) -> bytes:
        """One payload of exactly so many bytes; a JSON document from 400 bytes on."""
        chance = self._chance
        order = {
            "event_id": f"{chance.getrandbits(128):032x}",
            "type": "order_placed",
            "channel": chance.choice(_CHANNELS),
            "placed_at": f"2026-11-{chance.randrange(1, 30):02}T{chance.randrange(24):02}:"
            f"{chance.randrange(60):02}:{chance.randrange(60):02}.{chance.randrange(1000):03}Z",
            "customer": {"id": chance.randrange(10**9), "country": chance.choice(_COUNTRIES)},
            "item": {"sku": f"{chance.getrandbits(40):010X}", "count": chance.randrange(1, 9)},
            "session": f"{chance.getrandbits(96):024x}",
            "total_cents": chance.randrange(100, 500_000),
            "note": "",
        }
        document = json.dumps(order, separators=(",", ":"))
        room = size - len(document)
        if room < 0:
            return document[:size].encode()
        note = " ".join(chance.choices(self._words, k=room // 4 + 1))[:room].ljust(room, ".")
        return f'{document[:-2]}{note}"}}'.encode()
