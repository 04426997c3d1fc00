"""docs/catalog.md: the YAML registers a table, and the page says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from kinesis_assets import KinesisTableComponent
from kinesis_assets.dagster.derived_tables import consumption_of
from kinesis_assets.operations.catalog import registration
from kinesis_assets.operations.catalog.entry import MAX_NAME, MAX_TYPE
from support.catalog_tables import entry_of
from support.dagster_components import dagsters_own_warnings, loaded

PAGE = (Path(__file__).parents[2] / "docs" / "catalog.md").read_text()
(TABLE,) = map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))


@dagsters_own_warnings
def test_the_yaml_registers_a_table():
    (asset,) = loaded(KinesisTableComponent, **TABLE["attributes"])[1].assets
    assert consumption_of(asset).settings.catalog == {"database": "lake"}
    assert "catalog" in {key.name for key in asset.check_keys}


def test_the_page_has_the_type_of_each_type():
    rows = re.findall(r"^\| (`byte`.*?|`string`.*?|`timestamp`.*?) \| (.*?) \|$", PAGE, re.MULTILINE)
    for left, right in rows:
        kinds = re.findall(r"`(.*?)`", left)
        types = re.findall(r"`(.*?)`", right) or kinds
        expected = dict(zip(kinds, types if len(types) > 1 else types * len(kinds), strict=True))
        found = {kind: entry_of({"x": kind.replace("p,s", "10,2")}).columns[0][1] for kind in kinds}
        assert found == {kind: name.replace("p,s", "10,2") for kind, name in expected.items()}
    assert len(rows) == 3


def test_the_page_has_the_limits():
    assert f"{MAX_NAME} or a type more than {MAX_TYPE:,}" in " ".join(PAGE.split())
    assert registration.SECONDS == 5  # "at most five seconds"
