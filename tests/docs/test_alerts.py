"""The sensors of docs/alerts.md notify once for each failure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from kinesis_assets.dagster.settings.stream_check_settings import Checks

PAGE = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def page() -> dict[str, Any]:
    """What the blocks define, with a `notify` that adds to `notified`."""
    found: dict[str, Any] = {}
    for block in BLOCKS:
        exec(block, found)  # noqa: S102  # the page's own lines
    found["notified"] = []
    found["notify"] = found["notified"].append
    return found


def evaluate(page: dict[str, Any], instance: dg.DagsterInstance, cursor: str | None) -> str | None:
    with dg.build_sensor_context(instance, cursor=cursor) as context:
        page["failed_checks"](context)
        return context.cursor


def report(page: dict[str, Any], instance: dg.DagsterInstance, *, passed: bool) -> None:
    evaluation = dg.AssetCheckEvaluation(
        asset_key=page["RAW"], check_name="time_to_loss", passed=passed, description="shard 0 loses records"
    )
    instance.report_runless_asset_event(evaluation)


def test_the_checks_exist_and_are_errors(page: dict[str, Any]) -> None:
    assert all(getattr(Checks(), check.name).severity == "ERROR" for check in page["CHECKS"])


def test_a_failing_check_notifies_once_until_it_has_passed(page: dict[str, Any]) -> None:
    notified = page["notified"]
    with dg.DagsterInstance.ephemeral() as instance:
        cursor = evaluate(page, instance, None)
        assert notified == []
        report(page, instance, passed=False)
        for _ in range(2):
            cursor = evaluate(page, instance, cursor)
        assert len(notified) == 1
        assert notified[0].endswith("shard 0 loses records")
        for passed in (True, False):
            report(page, instance, passed=passed)
            cursor = evaluate(page, instance, cursor)
        assert len(notified) == 2


def test_a_failed_run_is_reported_with_its_reason(page: dict[str, Any]) -> None:
    @dg.op
    def fail() -> None:
        raise dg.Failure("shard 0: records have expired")

    @dg.job
    def job() -> None:
        fail()

    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(instance=instance, raise_on_error=False)
        context = dg.build_run_status_sensor_context(
            "failed_runs",
            result.get_run_failure_event(),
            instance,
            result.dagster_run,
        ).for_run_failure()
        page["failed_runs"](context)
    (notified,) = page["notified"]
    assert "records have expired" in notified
