"""docs/checks.md agrees with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from kinesis_assets.dagster.checks.settings import Checks
from kinesis_assets.dagster.names import io_manager_key, raw_key
from support.dagster_components import dagsters_own_warnings, loaded

PAGE = (Path(__file__).parents[2] / "docs" / "checks.md").read_text()
CHECKED, FRESH = (
    yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
)
ROWS = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) ?\| (WARN|ERROR) \|$", PAGE, re.MULTILINE)


def test_the_table_has_every_check_in_order():
    assert len(ROWS) == len(Checks.model_fields)
    assert [name for name, *_ in ROWS] == [name for name, _ in Checks().defined]


@pytest.mark.parametrize(("name", "fails", "bound", "severity"), ROWS)
def test_the_table_has_the_defaults(name, fails, bound, severity):
    check = getattr(Checks(), name)
    bounds = [field for field in type(check).model_fields if f"`{field}`" in fails]
    assert check.severity == severity
    assert [str(getattr(check, field)).removesuffix(".0") for field in bounds] == (
        [bound.replace(",", "")] if bound else []
    )


@dagsters_own_warnings
def test_the_yaml_sets_the_checks():
    _, definitions = loaded(**CHECKED["attributes"])
    checks = (definitions.resources or {})[io_manager_key("clicks")].opened.checks
    assert (checks.lag.max_seconds, checks.lag.severity, checks.time_to_loss.min_hours) == (300, "ERROR", 12)
    assert checks.no_accepted_data_loss.since.isoformat() == "2026-01-31T12:00:00+00:00"
    assert checks.compaction_debt is None


@dagsters_own_warnings
def test_the_yaml_sets_the_freshness_policy():
    _, definitions = loaded(**FRESH["attributes"])
    policy = definitions.resolve_asset_graph().get(raw_key("clicks")).freshness_policy
    assert policy.fail_window.to_timedelta().total_seconds() == 7200
