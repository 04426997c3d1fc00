"""The jobs that start a derived table again, and that decode its bad records again.

Neither changes anything without `apply`. What a redrive refuses, it refuses before Spark is started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from kinesis_assets import KinesisRoutesComponent, KinesisTableComponent, derived_table
from kinesis_assets.dagster.jobs.derived_jobs import build_rebuild_job, redrive_asset
from kinesis_assets.dagster.stream_names import op_key
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.derive.commit_entry import Kind
from kinesis_assets.errors import InvalidInput, TableMissing
from support.dagster_components import dagsters_own_warnings, loaded
from support.rebuilds import SHARD, OwnedTable

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = [dagsters_own_warnings, pytest.mark.slow]


@pytest.fixture
def owned(project, source, tmp_path) -> OwnedTable:
    """A derived table `numbers`, which has two rows, and the roll-up `counts`."""
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
        run_config={"ops": {op_key(names.job("rebuild")): {"config": config}}},
    )


def plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.value for name, value in metadata.items()}


def test_a_rebuild_reports_the_plan_and_changes_nothing_without_apply(owned, instance):
    before = owned.version
    result = run(owned, instance, asset="numbers")
    (output,) = result.filter_events(lambda event: event.is_successful_output)
    facts = plain(output.step_output_data.metadata)
    assert (facts["rows deleted"], facts["lost rows"], facts["applied"]) == (2, 1, False)
    assert owned.version == before


def test_the_run_id_of_a_rebuild_is_committed_and_the_asset_has_an_event(owned, instance):
    result = run(owned, instance, asset="numbers", apply=True)
    newest = owned.derived.table.snapshot().newest
    assert (newest.by, owned.derived.active) == (result.run_id, set())
    (record,) = instance.fetch_observations(dg.AssetKey("numbers"), limit=9).records
    facts = plain(record.asset_observation.metadata)
    assert (facts["rows deleted"], facts["lost rows"], facts["below"]) == (2, 1, ["counts"])


def test_the_tables_below_include_those_that_are_derived_through_others(owned, instance, tmp_path):
    stream = owned.project.stream

    @derived_table(source=stream, upstream="counts", table=str(tmp_path / "largest"))
    def largest(new: Any) -> Any:
        return new

    @derived_table(source=stream, upstream="largest", table=str(tmp_path / "names"))
    def names(new: Any) -> Any:
        return new

    definitions = dg.Definitions.merge(owned.project.definitions, dg.Definitions(assets=[largest, names]))
    owned.project = StreamProject(stream, definitions)
    result = run(owned, instance, asset="numbers")
    (output,) = result.filter_events(lambda event: event.is_successful_output)
    assert plain(output.step_output_data.metadata)["below"] == ["counts", "largest", "names"]


def test_a_rebuild_makes_a_renamed_asset_the_owner(owned, instance):
    owned.define("old_name", Kind.APPEND)
    run(owned, instance, asset="numbers", take_over=True, apply=True)
    assert owned.derived.table.snapshot().newest.definition.owner == "numbers"


def test_the_asset_of_a_rebuild_must_be_a_derived_table_of_the_stream(owned, instance):
    with pytest.raises(InvalidInput, match="counts, numbers"):
        run(owned, instance, asset="orders", apply=True)


@pytest.fixture
def redrive(owned, stream, tmp_path):
    """Redrive an asset of the project, which also has a typed table with one of its errors, and a router."""
    _, typed = loaded(
        KinesisTableComponent,
        name="orders",
        source=stream,
        table=str(tmp_path / "orders"),
        format="json",
        schema="id INT",
        on_bad_record="separate",
    )
    route = {"match": "order", "name": "placed", "table": str(tmp_path / "placed"), "schema": "id INT"}
    _, routes = loaded(
        KinesisRoutesComponent,
        name="events",
        source=stream,
        table=str(tmp_path / "events"),
        format="json",
        route_by="kind",
        routes=[route],
    )
    definitions = dg.Definitions.merge(owned.project.definitions, typed, routes)
    assets = definitions.get_repository_def().assets_defs_by_key

    def redrive(asset: str) -> Any:
        with owned.project.open_stream() as opened:
            return redrive_asset(opened, assets, asset, by="ann", apply=True)

    return redrive


def test_a_redrive_of_an_unknown_asset_is_refused_with_those_that_there_are(redrive):
    with pytest.raises(InvalidInput, match="these are counts, events, numbers, orders, orders_errors"):
        redrive("nobody")


def test_a_redrive_of_a_roll_up_is_refused(redrive):
    with pytest.raises(InvalidInput, match="roll-up, which keeps no bad records"):
        redrive("counts")


def test_a_redrive_of_a_router_is_refused_with_the_command_to_run_instead(redrive):
    with pytest.raises(InvalidInput, match=r"it is a router.* `kinesis-assets rebuild`"):
        redrive("events")


def test_a_redrive_of_a_table_of_errors_is_refused_with_the_asset_to_give_instead(redrive):
    with pytest.raises(InvalidInput, match="the bad ones of orders; give the key of that asset"):
        redrive("orders_errors")


def test_a_redrive_of_a_missing_table_is_refused(redrive):
    with pytest.raises(TableMissing):
        redrive("orders")


@pytest.mark.parametrize("job", ["rebuild", "redrive"])
def test_the_stream_has_the_jobs(owned, job):
    found = owned.project.definitions.resolve_job_def(owned.project.names.job(job))
    assert "Without apply" in (found.description or "")
