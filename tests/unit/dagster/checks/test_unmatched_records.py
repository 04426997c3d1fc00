"""The check of records of a router that no route has."""

from __future__ import annotations

import pytest

from kinesis_assets.dagster.checks.derived_evaluation import DerivedEvaluation, DerivedProgress, DerivedState
from kinesis_assets.dagster.derived.derived_events import derived_metadata
from kinesis_assets.dagster.settings.check_settings import DerivedChecks
from kinesis_assets.derive.data_files import RecordCounts
from kinesis_assets.table.commit_ids import time_of_id
from support.checked_tables import checked_table
from support.plain_derived import PlainDerived
from support.plain_router import PlainRouter

MATCHED, UNMATCHED = ("a", "one"), ("b", None)


@pytest.fixture
def results(tmp_path):
    """Returns the results of the checks of a table, and what they remember."""
    source = PlainDerived(tmp_path / "source")

    def results(table, progress=None, *, is_router=True, **checks):
        parsed = DerivedChecks.parse(checks)
        checked = checked_table("events", table.uri, source.table.uri, parsed, is_router=is_router)
        state = DerivedState.of(checked)
        now = time_of_id(state.newest.commit_id)
        evaluation = DerivedEvaluation(checked, state, progress or DerivedProgress(), now)
        return {each.name: each for each in evaluation.results}, evaluation.progress

    return results


@pytest.fixture
def router(tmp_path):
    return PlainRouter(str(tmp_path / "events"))


@pytest.mark.parametrize(("unmatched", "passed"), [(0, True), (1, True), (2, False)])
def test_the_share_of_records_without_a_route_is_bounded(router, results, unmatched, passed):
    router.append(*[MATCHED] * (10 - unmatched), *[UNMATCHED] * unmatched)
    found, _ = results(router.table, unmatched_records={"max_share": 0.1})
    check = found["unmatched_records"]
    assert (check.passed, check.severity) == (passed, "WARN")
    assert check.metadata == {"records": 10, "unmatched records": unmatched, "share (%)": 10.0 * unmatched}


def test_by_default_a_twentieth_may_have_no_route(router, results):
    router.append(*[MATCHED] * 19, UNMATCHED)
    found, progress = results(router.table)
    assert found["unmatched_records"].passed
    router.append(UNMATCHED)
    found, _ = results(router.table, progress)
    assert not found["unmatched_records"].passed
    assert "no route matches 2 of the 21 records" in found["unmatched_records"].description


def test_a_router_whose_records_cannot_be_decoded_is_to_be_rebuilt(router, results):
    router.append(MATCHED, counts=RecordCounts(10, 10))
    advice = "The column error says why. Correct the settings and run `kinesis-assets rebuild`"
    assert advice in results(router.table)[0]["bad_records"].description


def test_no_other_table_has_the_check(tmp_path, results):
    table = PlainDerived(tmp_path / "orders")
    table.append((1, 1, "a"))
    assert "unmatched_records" not in results(table.table, is_router=False)[0]


def test_the_settings_must_still_make_the_table_a_router(router, results):
    router.append(MATCHED)
    found, _ = results(router.table, is_router=False)
    assert "router" in found["continuity"].description


def test_the_event_has_the_number_of_records_without_a_route(router):
    commits = [router.append(MATCHED, UNMATCHED), router.append(UNMATCHED)]
    assert derived_metadata(commits)["unmatched records"] == 2
    assert derived_metadata([router.append(MATCHED)])["unmatched records"] == 0
