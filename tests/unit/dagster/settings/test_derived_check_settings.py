"""The settings of the checks of derived tables, in Python and in YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kinesis_assets import KinesisTableComponent, derived_table, rollup
from kinesis_assets.errors import InvalidInput
from support.dagster_components import dagsters_own_warnings, loaded

if TYPE_CHECKING:
    import dagster as dg

COMMON = {"lag", "continuity", "no_accepted_data_loss", "compaction_debt"}
KEYED = {"key": ["id"], "order_by": ["at"]}
TYPED = {
    "name": "orders",
    "source": "clicks",
    "table": "orders",
    "format": "json",
    "schema": "id INT, at DATE",
}


def appended(**settings) -> dg.AssetsDefinition:
    @derived_table(source="clicks", table="orders", **settings)
    def orders(new):
        return new

    return orders


def rolled_up(**settings) -> dg.AssetsDefinition:
    @rollup(source="clicks", table="days", by=["day"], **settings)
    def days(rows):
        return rows

    return days


def names_of(asset: dg.AssetsDefinition) -> set[str]:
    return {key.name for key in asset.check_keys}


def typed(**settings) -> dict[str, set[str]]:
    """Return the names of the checks of each asset of a YAML."""
    assets = loaded(KinesisTableComponent, **TYPED | settings)[1].assets
    return {asset.key.to_user_string(): names_of(asset) for asset in assets}


def test_a_table_without_a_key_has_the_checks_that_need_none():
    assert names_of(appended()) == COMMON | {"bad_records"}


def test_a_table_with_a_key_has_all_checks():
    assert names_of(appended(**KEYED)) == COMMON | {"bad_records", "no_duplicates"}


def test_a_roll_up_has_those_of_its_position_and_files():
    assert names_of(rolled_up()) == COMMON


@pytest.mark.parametrize("off", ["off", False, None])
def test_a_check_can_be_off(off):
    assert names_of(appended(checks={"lag": off})) == {
        "continuity",
        "no_accepted_data_loss",
        "compaction_debt",
        "bad_records",
    }


def test_without_checks_the_asset_has_none():
    assert names_of(rolled_up(checks=dict.fromkeys(COMMON, "off"))) == set()


@dagsters_own_warnings
def test_a_typed_table_has_the_checks_of_its_settings():
    assert typed(checks={"lag": "off"}, **KEYED) == {
        "orders": {"continuity", "no_accepted_data_loss", "compaction_debt", "bad_records", "no_duplicates"}
    }


@dagsters_own_warnings
def test_a_typed_table_without_a_format_counts_no_records():
    assert typed(format=None, schema=None) == {"orders": COMMON}


@dagsters_own_warnings
def test_the_table_of_errors_has_the_same_checks_but_those_of_records_and_keys():
    checks = {"lag": "off", "bad_records": {"max_share": 0.5}, "no_duplicates": {"severity": "WARN"}}
    assert typed(on_bad_record="separate", checks=checks, **KEYED) == {
        "orders": {"continuity", "no_accepted_data_loss", "compaction_debt", "bad_records", "no_duplicates"},
        "orders_errors": {"continuity", "no_accepted_data_loss", "compaction_debt"},
    }


@pytest.mark.parametrize(
    ("build", "checks", "message"),
    [
        (appended, {"lags": {}}, "checks: unknown setting lags"),
        (appended, {"time_to_loss": {}}, "checks: unknown setting time_to_loss"),
        (appended, {"lag": {"max_seconds": 0}}, "checks: lag: max_seconds"),
        (appended, {"bad_records": {"max_share": 2}}, "checks: bad_records: max_share"),
        (appended, {"continuity": {"since": "2026-01-31T12:00:00Z"}}, "checks: continuity: unknown setting"),
        (appended, {"no_duplicates": {"severity": "WARN"}}, "checks: no_duplicates: only with a key"),
        (rolled_up, {"no_duplicates": {}}, "checks: no_duplicates: "),
        (rolled_up, {"bad_records": {}}, "checks: bad_records: "),
    ],
)
def test_an_invalid_check_is_refused(build, checks, message):
    with pytest.raises(InvalidInput) as refused:
        build(checks=checks)
    assert str(refused.value).startswith(message)


def test_bad_records_without_a_format_are_refused():
    with pytest.raises(InvalidInput, match=r"^checks: bad_records: .*\bformat\b"):
        KinesisTableComponent(name="orders", source="clicks", table="orders", checks={"bad_records": {}})


def test_runs_that_automation_requests_do_not_execute_the_checks():
    specs = list(appended(**KEYED).check_specs)
    assert all(spec.automation_condition.get_label() == "never_requested" for spec in specs)


@pytest.mark.parametrize("build", [appended, rolled_up])
def test_a_derived_table_has_a_freshness_policy(build):
    spec = build(freshness={"fail_after_seconds": 3600, "warn_after_seconds": 600}).get_asset_spec()
    assert spec.freshness_policy.fail_window.to_timedelta().total_seconds() == 3600
    assert spec.freshness_policy.warn_window.to_timedelta().total_seconds() == 600
    assert build().get_asset_spec().freshness_policy is None
