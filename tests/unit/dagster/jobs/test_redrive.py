"""What a redrive refuses before Spark is started. It changes nothing."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from kinesis_assets import KinesisRoutesComponent, KinesisTableComponent
from kinesis_assets.dagster.jobs.redrive import redrive_asset
from kinesis_assets.errors import InvalidInput, TableMissing
from support.dagster_components import dagsters_own_warnings, loaded
from support.rebuilds import SHARD, OwnedTable

pytestmark = [dagsters_own_warnings, pytest.mark.slow]


@pytest.fixture
def owned(project, source, tmp_path) -> OwnedTable:
    """A derived table `numbers`, and the roll-up `counts`."""
    source.create(1)
    source.put(SHARD, 3)
    return OwnedTable.with_rows(project, tmp_path)


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


def test_an_unknown_asset_is_refused_with_those_that_there_are(redrive):
    with pytest.raises(InvalidInput, match="these are counts, events, numbers, orders, orders_errors"):
        redrive("nobody")


def test_a_roll_up_is_refused(redrive):
    with pytest.raises(InvalidInput, match="roll-up, which keeps no bad records"):
        redrive("counts")


def test_a_router_is_refused_with_the_command_to_run_instead(redrive):
    with pytest.raises(InvalidInput, match=r"it is a router.* `kinesis-assets rebuild`"):
        redrive("events")


def test_a_table_of_errors_is_refused_with_the_asset_to_give_instead(redrive):
    with pytest.raises(InvalidInput, match="the bad ones of orders; give the key of that asset"):
        redrive("orders_errors")


def test_a_missing_table_is_refused(redrive):
    with pytest.raises(TableMissing):
        redrive("orders")


def test_the_stream_has_the_job(owned):
    job = owned.project.definitions.resolve_job_def(owned.project.names.redrive_job)
    assert "Without apply" in (job.description or "")
