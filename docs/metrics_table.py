"""Writes the table of instruments of docs/metrics.md, from their declarations, between its marks."""

from __future__ import annotations

import sys
from pathlib import Path

from kinesis_assets.metrics import INSTRUMENTS, Instrument, Kind

_BEGIN = "<!-- instruments: generated, do not edit -->\n"
_END = "<!-- end of instruments -->\n"

_HEAD = "| metric | in Prometheus | kind | unit | attributes | |\n|---|---|---|---|---|---|\n"

_SUFFIXES = {"s": "_seconds", "By": "_bytes"}


def prometheus_name(instrument: Instrument) -> str:
    """Return the name that Prometheus gives the instrument: with its unit, and with `total` for a counter."""
    name = instrument.name.replace(".", "_") + _SUFFIXES.get(instrument.unit, "")
    return f"{name}_total" if instrument.kind is Kind.COUNTER else name


def instruments_table() -> str:
    """Return the table as Markdown."""
    return _HEAD + "".join(
        f"| `{each.name}` | `{prometheus_name(each)}` | {each.kind} | `{each.unit}` "
        f"| {', '.join(f'`{name}`' for name in each.attributes)} | {each.description} |\n"
        for each in INSTRUMENTS
    )


def with_table(page: str) -> str:
    """Return a page with the present table between its marks.

    Raises:
        ValueError: The page has no marks.
    """
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not end:
        raise ValueError("no marks of the instruments in the page")
    return f"{before}{begin}\n{instruments_table()}\n{end}{after}"


if __name__ == "__main__":
    written = Path(sys.argv[1])
    written.write_text(with_table(written.read_text()))
