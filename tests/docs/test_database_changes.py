"""The defaults on docs/database-changes.md are those of the formats."""

from __future__ import annotations

from pathlib import Path

from kinesis_assets.decoders.formats import FORMATS

PAGE = (Path(__file__).parents[2] / "docs" / "database-changes.md").read_text()


def test_the_defaults_on_the_page_are_those_of_the_formats() -> None:
    rows = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.startswith("| `d")]
    defaults = {name.strip(" `"): order_by.strip(" `") for name, *_, order_by in rows}
    assert defaults == {
        each.name: f"[{', '.join(each.changes.order_by)}]" for each in FORMATS.values() if each.changes
    }
