"""The settings of the checks, in Python and in YAML."""

from __future__ import annotations

import re

import dagster as dg
import pytest

from kinesis_assets import build_kinesis_stream
from kinesis_assets.dagster.settings.check_settings import Checks
from kinesis_assets.errors import InvalidInput
from support.dagster_components import dagsters_own_warnings, loaded
from support.stream_names import io_manager_key, raw_key

NAMES = [
    "lag",
    "time_to_loss",
    "every_shard_read",
    "continuity",
    "no_accepted_data_loss",
    "bad_records",
    "compaction_debt",
    "no_duplicates",
]
ALL = [*NAMES[:-1], "lease_table", "catalog", "consumer", "no_duplicates"]
"""The checks of a stream of which mirrors are written, and that has a consumer."""

MIRRORS = {"lease_table": "mirror", "catalog": {"database": "lake"}}
"""The settings with which they are."""

BY_CONSUMER = {"follow_for": 600.0, "consumer": "lake"}


def names_of(definitions):
    return {key.name for key in definitions.resolve_asset_graph().asset_check_keys}


def test_every_check_is_defined_by_default():
    assert [name for name, _ in Checks().defined] == ALL
    definitions = build_kinesis_stream("clicks", table="clicks", **MIRRORS, **BY_CONSUMER)
    assert names_of(definitions) == set(ALL)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("lease_table", {"lease_table": "mirror"}),
        ("catalog", {"catalog": MIRRORS["catalog"]}),
        ("consumer", BY_CONSUMER),
    ],
)
def test_only_streams_with_the_setting_have_its_check(name, settings):
    assert names_of(build_kinesis_stream("clicks", table="clicks")) == set(NAMES)
    off = {name: "off"}
    assert names_of(build_kinesis_stream("clicks", table="clicks", checks=off)) == set(NAMES)
    assert names_of(build_kinesis_stream("clicks", table="clicks", **settings)) == {*NAMES, name}
    definitions = build_kinesis_stream("clicks", table="clicks", checks=off, **settings)
    assert names_of(definitions) == set(NAMES)


def test_a_scan_is_requested_by_a_run_without_the_table_or_by_a_selection_of_the_scan_alone():
    only = Checks.parse(dict.fromkeys(ALL[:-1], "off"))
    scan = ["no_duplicates"]
    assert Checks().scan_is_requested(NAMES, materializes=False)
    assert Checks().scan_is_requested(scan, materializes=True)
    assert not Checks().scan_is_requested(NAMES, materializes=True)
    assert not Checks().scan_is_requested(["lag"], materializes=False)
    assert not only.scan_is_requested(scan, materializes=True)  # a selection of the asset is the same


@pytest.mark.parametrize("off", ["off", False, None])
def test_a_check_can_be_off(off):
    checks = Checks.parse({"lag": off})
    assert [name for name, _ in checks.defined] == ALL[1:]
    assert names_of(build_kinesis_stream("clicks", table="clicks", checks={"lag": off})) == set(NAMES[1:])


def test_all_checks_can_be_off():
    definitions = build_kinesis_stream("clicks", table="clicks", checks=dict.fromkeys(NAMES, "off"))
    assert names_of(definitions) == set()


def test_a_bound_and_a_severity_can_be_set():
    lag = Checks.parse({"lag": {"max_seconds": 60, "severity": "ERROR"}}).lag
    assert (lag.max_seconds, lag.severity) == (60, "ERROR")


def test_the_runs_and_the_sensor_have_the_checks():
    checks = {"continuity": {"since": "2026-01-31T12:00:00Z"}, "lag": False}
    definitions = build_kinesis_stream("clicks", table="clicks", checks=checks, **MIRRORS, **BY_CONSUMER)
    opened = definitions.resources[io_manager_key("clicks")].opened
    assert opened.checks == Checks.parse(checks)


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        ({"lags": {}}, "checks: unknown setting lags"),
        ({"lag": {"max_seconds": -1}}, "checks: lag: max_seconds .*0.*-1"),
        ({"lag": {"max": 1}}, "checks: lag: unknown setting max"),
        ({"lag": {"severity": "FATAL"}}, "checks: lag: severity .*'WARN'.*'ERROR'.*'FATAL'"),
        ({"lease_table": {"max_seconds": 60}}, "checks: lease_table: only of a stream with .* lease_table"),
        ({"catalog": {}}, "checks: catalog: only of a stream with the setting catalog"),
        ({"consumer": {"max_seconds": 60}}, "checks: consumer: only of a stream with the setting consumer"),
        ({"lag": 5}, r"checks: lag .*\boff\b.*\b5\b"),
        ({"continuity": {"since": "yesterday"}}, "checks: continuity: since"),
        ({"continuity": {"since": "2026-01-31T12:00:00"}}, "checks: continuity: since"),
    ],
)
def test_an_invalid_check_is_refused(checks, message):
    with pytest.raises(InvalidInput) as refused:
        build_kinesis_stream("clicks", table="clicks", checks=checks)
    assert re.match(message, str(refused.value))


@dagsters_own_warnings
def test_the_yaml_sets_checks_and_the_freshness():
    _, definitions = loaded(
        stream="clicks",
        table="clicks",
        checks={"lag": {"max_seconds": 60}, "no_duplicates": "off"},
        freshness={"fail_after_seconds": 3600, "warn_after_seconds": 600},
    )
    assert names_of(definitions) == {*NAMES} - {"no_duplicates"}
    policy = definitions.resolve_asset_graph().get(raw_key("clicks")).freshness_policy
    assert isinstance(policy, dg.FreshnessPolicy)
    assert policy.fail_window.to_timedelta().total_seconds() == 3600
    assert policy.warn_window.to_timedelta().total_seconds() == 600


def test_an_asset_has_no_freshness_policy_by_default():
    graph = build_kinesis_stream("clicks", table="clicks").resolve_asset_graph()
    assert graph.get(raw_key("clicks")).freshness_policy is None


@pytest.mark.parametrize(
    ("freshness", "message"),
    [
        ({}, "freshness: fail_after_seconds is missing"),
        (
            {"fail_after_seconds": 300, "warn_after_seconds": 300},
            "freshness: warn_after_seconds .*less.* fail_after_seconds",
        ),
    ],
)
def test_an_invalid_freshness_is_refused(freshness, message):
    with pytest.raises(InvalidInput) as refused:
        build_kinesis_stream("clicks", table="clicks", freshness=freshness)
    assert re.fullmatch(message, str(refused.value))


@pytest.mark.parametrize("name", ["fail_after_seconds", "warn_after_seconds"])
@pytest.mark.parametrize(("seconds", "bound"), [(59, "at least 60"), (1e14, r"at most 1e\+09")])
def test_a_freshness_window_that_dagster_does_not_support_is_refused(name, seconds, bound):
    with pytest.raises(InvalidInput, match=f"^freshness: {name} must be {bound}, not "):
        build_kinesis_stream("clicks", table="clicks", freshness={"fail_after_seconds": 3600, name: seconds})


def test_a_freshness_window_of_a_minute_is_supported():
    definitions = build_kinesis_stream("clicks", table="clicks", freshness={"fail_after_seconds": 60})
    policy = definitions.resolve_asset_graph().get(raw_key("clicks")).freshness_policy
    assert policy.fail_window.to_timedelta().total_seconds() == 60
