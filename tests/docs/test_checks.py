"""docs/checks.md agrees with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from kinesis_assets import KinesisTableComponent
from kinesis_assets.dagster.derived_tables import consumption_of
from kinesis_assets.dagster.settings.check_settings import Checks, DerivedChecks
from support.dagster_components import dagsters_own_warnings, loaded
from support.stream_names import io_manager_key, raw_key

PAGE = (Path(__file__).parents[2] / "docs" / "checks.md").read_text()
CHECKED, DERIVED, FRESH = (
    yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
)
ROWS = [
    (kind(), *row)
    for kind, section in zip((Checks, DerivedChecks), PAGE.split("## Derived tables\n"), strict=True)
    for row in re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) ?\| (WARN|ERROR) \|$", section, re.MULTILINE)
]


@pytest.mark.parametrize("kind", [Checks, DerivedChecks])
def test_the_table_has_every_check_in_order(kind):
    names = [name for checks, name, *_ in ROWS if type(checks) is kind]
    assert names == [name for name, _ in kind().defined] == [*kind.model_fields]


@pytest.mark.parametrize(("checks", "name", "fails", "bound", "severity"), ROWS)
def test_the_table_has_the_defaults(checks, name, fails, bound, severity):
    check = getattr(checks, name)
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
def test_the_yaml_sets_the_checks_of_a_derived_table():
    (asset,) = loaded(KinesisTableComponent, **DERIVED["attributes"])[1].assets
    checks = consumption_of(asset).checks
    assert (checks.lag.max_seconds, checks.lag.severity, checks.bad_records.max_share) == (
        300,
        "ERROR",
        0.001,
    )
    names = {name for name, _ in checks.defined}
    assert names == {key.name for key in asset.check_keys}
    assert {*DerivedChecks.model_fields} - names == {"compaction_debt", "unmatched_records", "catalog"}


@dagsters_own_warnings
def test_the_yaml_sets_the_freshness_policy():
    _, definitions = loaded(**FRESH["attributes"])
    policy = definitions.resolve_asset_graph().get(raw_key("clicks")).freshness_policy
    assert policy.fail_window.to_timedelta().total_seconds() == 7200
