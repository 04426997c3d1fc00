"""docs/commit-protocol.md names where each rule is written."""

from __future__ import annotations

import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "commit-protocol.md").read_text()
RULES = re.findall(r"^\| [^|]+ \| `([\w/]+)\.py` \| `([\w.]+)` \|$", PAGE, re.MULTILINE)


def test_the_table_of_rules_is_found():
    assert len(RULES) > 20


@pytest.mark.parametrize(("module", "name"), RULES)
def test_each_rule_is_written_where_the_page_says(module, name):
    found = import_module("kinesis_assets." + module.replace("/", "."))
    assert reduce(getattr, name.split("."), found)
