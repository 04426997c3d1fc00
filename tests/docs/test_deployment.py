"""docs/deployment.md agrees with dagster.yaml and the settings."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from kinesis_assets.dagster.settings.stream_settings import StreamSettings
from support.dagster_components import dagsters_own_warnings, loaded
from support.stream_names import io_manager_key

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "deployment.md").read_text()
COMMENTED = (PROJECT / "dagster.yaml").read_text()
INSTANCE = yaml.safe_load(COMMENTED)
STORAGE, STREAM = (
    yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
)


def documented(setting: str) -> str:
    (value,) = re.findall(rf"^\| `{re.escape(setting)}` \| (.*?) \|", PAGE, re.MULTILINE)
    return str(value)


def test_the_table_has_the_values_of_the_instance() -> None:
    runs, monitoring, retries = (
        INSTANCE["concurrency"]["runs"],
        INSTANCE["run_monitoring"],
        INSTANCE["run_retries"],
    )
    (limit,) = runs["tag_concurrency_limits"]
    assert documented("max_concurrent_runs") == str(runs["max_concurrent_runs"])
    assert documented("tag_concurrency_limits") == f"{limit['limit']} for each `{limit['key']}`"
    assert documented("run_monitoring.enabled") == str(monitoring["enabled"]).lower()
    assert documented("cancel_timeout_seconds") == str(monitoring["cancel_timeout_seconds"])
    assert documented("max_runtime_seconds") == str(monitoring["max_runtime_seconds"])
    assert documented("run_retries").startswith(f"{retries['max_retries']}, not")
    assert retries["retry_on_asset_or_op_failure"] is False
    assert documented("sensors.use_threads") == str(INSTANCE["sensors"]["use_threads"]).lower()


def test_the_storage_is_that_of_the_instance() -> None:
    (commented,) = re.findall(r"^# (storage:\n(?:#   .*\n)+)", COMMENTED, re.MULTILINE)
    assert yaml.safe_load(commented.replace("\n# ", "\n")) == STORAGE


def test_a_stop_fits_into_dagsters_limit_by_default_and_into_that_of_a_container_with_the_yaml() -> None:
    by_default = StreamSettings.model_fields["stop_timeout"].default
    assert re.search(rf"`stop_timeout`[^.|]*\b{by_default:.0f}\b", PAGE)
    assert by_default < INSTANCE["run_monitoring"]["cancel_timeout_seconds"]
    assert STREAM["attributes"]["stop_timeout"] < 30


@dagsters_own_warnings
def test_the_yaml_sets_the_timeout() -> None:
    _, definitions = loaded(**STREAM["attributes"])
    assert (definitions.resources or {})[io_manager_key("clicks")].stop_timeout == 20
