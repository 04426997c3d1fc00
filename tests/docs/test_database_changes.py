"""The records of docs/database-changes.md become the rows that the page shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kinesis_assets import KinesisTableComponent
from kinesis_assets.decoders.formats import FORMATS
from support.dagster_components import dagsters_own_warnings, loaded
from support.raw_rows import decoded
from support.spark_types import spark_type

PAGE = (Path(__file__).parents[2] / "docs" / "database-changes.md").read_text()
SECTIONS = PAGE.split("\n## ")[1:]
MOST_LINES = 10


def block(section: str, language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def table(section: str) -> list[list[str]]:
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in (lines[0], *lines[2:])]


@pytest.mark.parametrize("section", SECTIONS, ids=[each.partition("\n")[0] for each in SECTIONS])
@dagsters_own_warnings
def test_the_records_of_the_page_become_its_rows(section: str) -> None:
    text = block(section, "yaml")
    assert len([line for line in text.splitlines() if line]) <= MOST_LINES
    settings: dict[str, Any] = yaml.safe_load(text)["attributes"]
    assert loaded(KinesisTableComponent, **settings)[1].assets
    schema = re.sub(r"\bBIGINT\b", "LONG", settings["schema"]).replace(", 2)", ",2)").lower()
    decoder = FORMATS[settings["format"]].load()(spark_type(schema), settings["key"])
    rows = decoded([line.encode() for line in block(section, "json").splitlines()], decoder)
    names, *expected = table(section)
    assert [row["error"] for row in rows] == [None] * len(expected)
    found = [[row["value"][name] for name in names] for row in rows]
    assert [["" if each is None else str(each) for each in row] for row in found] == expected


def test_the_defaults_on_the_page_are_those_of_the_formats() -> None:
    rows = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.startswith("| `d")]
    defaults = {name.strip(" `"): order_by.strip(" `") for name, *_, order_by in rows}
    assert defaults == {
        each.name: f"[{', '.join(each.changes.order_by)}]" for each in FORMATS.values() if each.changes
    }
