"""The job that starts a derived table again. It changes nothing without `apply`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from kinesis_assets.dagster.jobs.rebuild import build_rebuild_job
from kinesis_assets.dagster.stream_names import op_key
from kinesis_assets.derive.commit_entry import Kind
from kinesis_assets.errors import InvalidInput
from support.rebuilds import SHARD, OwnedTable

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.slow


@pytest.fixture
def owned(project, source, tmp_path) -> OwnedTable:
    """A derived table that has two rows."""
    source.create(1)
    source.put(SHARD, 3)
    owned = OwnedTable.with_rows(project, tmp_path)
    owned.define("numbers", Kind.APPEND, consumed=4)
    return owned


def run(owned, instance, **config: Any) -> dg.ExecuteInProcessResult:
    names = owned.project.names
    return build_rebuild_job(names, owned.assets).execute_in_process(
        instance=instance,
        resources=dict(owned.project.definitions.resources or {}),
        run_config={"ops": {op_key(names.rebuild_job): {"config": config}}},
    )


def plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.value for name, value in metadata.items()}


def test_it_reports_the_plan_and_changes_nothing_without_apply(owned, instance):
    before = owned.version
    result = run(owned, instance, asset="numbers")
    (output,) = result.filter_events(lambda event: event.is_successful_output)
    facts = plain(output.step_output_data.metadata)
    assert (facts["rows deleted"], facts["lost rows"], facts["applied"]) == (2, 1, False)
    assert owned.version == before


def test_its_run_id_is_committed_and_the_asset_has_an_event(owned, instance):
    result = run(owned, instance, asset="numbers", apply=True)
    newest = owned.derived.table.snapshot().newest
    assert (newest.by, owned.derived.active) == (result.run_id, set())
    (record,) = instance.fetch_observations(dg.AssetKey("numbers"), limit=9).records
    facts = plain(record.asset_observation.metadata)
    assert (facts["rows deleted"], facts["lost rows"], facts["below"]) == (2, 1, ["counts"])


def test_it_makes_a_renamed_asset_the_owner(owned, instance):
    owned.define("old_name", Kind.APPEND)
    run(owned, instance, asset="numbers", take_over=True, apply=True)
    assert owned.derived.table.snapshot().newest.definition.owner == "numbers"


def test_the_asset_must_be_a_derived_table_of_the_stream(owned, instance):
    with pytest.raises(InvalidInput, match="counts, numbers"):
        run(owned, instance, asset="orders", apply=True)


def test_the_stream_has_the_job(owned):
    job = owned.project.definitions.resolve_job_def(owned.project.names.rebuild_job)
    assert "Without apply" in (job.description or "")
