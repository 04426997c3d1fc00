"""Derived tables as Dagster assets: what they materialize, and when they are requested."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import pytest
from deltalake import DeltaTable

from kinesis_assets import derived_table, rollup
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.errors import InvalidInput, TableOfAnotherSource
from support.daemon import Daemon
from support.dagster_components import dagsters_own_warnings
from support.dagster_runs import exact, execute, plain
from support.routed_project import RoutedProject
from support.stream_names import raw_key, shard_partitions

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

pytestmark = pytest.mark.any_format

A, B, C = (f"shardId-{number:012d}" for number in range(3))
NUMBERS, COUNTS = dg.AssetKey("numbers"), dg.AssetKey("counts")


@pytest.fixture
def tables(tmp_path: Path) -> tuple[str, str]:
    """The paths of two derived tables."""
    return str(tmp_path / "numbers"), str(tmp_path / "counts")


@pytest.fixture
def pipeline(project, stream, tables) -> StreamProject:
    """The stream, a table with the numbers of its records, and the count of each number."""
    first, second = tables

    @derived_table(source=stream, table=first)
    def numbers(new: DataFrame) -> DataFrame:
        """Return the numbers of the records."""
        return new.selectExpr("CAST(CAST(data AS STRING) AS INT) AS number")

    @rollup(source=stream, upstream="numbers", table=second, by=["number"])
    def counts(rows: DataFrame) -> DataFrame:
        return rows.groupBy("number").count()

    derived = dg.Definitions(assets=[numbers, counts])
    return StreamProject(stream, dg.Definitions.merge(project.definitions, derived))


def materialize(pipeline, instance, *names):
    return pipeline.definitions.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance, asset_selection=[dg.AssetKey(name) for name in names]
    )


@pytest.mark.usefixtures("spark")
def test_a_chain_of_derived_tables_is_materialized(pipeline, source, instance, tables):
    source.create(1)
    for _ in range(2):
        source.put(A, 2)
        execute(pipeline, instance, A)
        result = materialize(pipeline, instance, "numbers", "counts")
    counts = DeltaTable(tables[1]).to_pyarrow_table().select(["number", "count"]).to_pylist()
    assert sorted(tuple(row.values()) for row in counts) == [(0, 2), (1, 2)]
    (event,) = result.asset_materializations_for_node("numbers")
    assert plain(event.metadata)["rows"] == 2


@pytest.mark.usefixtures("spark")
def test_a_materialization_without_new_rows_reports_none(pipeline, source, instance):
    source.create(1)
    source.put(A, 3)
    execute(pipeline, instance, A)
    materialize(pipeline, instance, "numbers")
    result = materialize(pipeline, instance, "numbers")
    (event,) = result.asset_materializations_for_node("numbers")
    assert (plain(event.metadata)["rows"], exact(event.metadata)["commits"]) == (0, 0)


@pytest.mark.usefixtures("spark")
def test_the_table_of_another_asset_is_refused_when_it_runs(project, pipeline, source, instance, tables):
    source.create(1)
    source.put(A, 1)
    execute(pipeline, instance, A)
    materialize(pipeline, instance, "numbers")

    @derived_table(source=project.stream, table=tables[0])
    def digits(new: DataFrame) -> DataFrame:
        return new.selectExpr("CAST(CAST(data AS STRING) AS INT) AS number")

    renamed = dg.Definitions.merge(project.definitions, dg.Definitions(assets=[digits]))
    version = DeltaTable(tables[0]).version()
    with pytest.raises(TableOfAnotherSource, match=r"\bnumbers\b.*\bdigits\b"):
        materialize(StreamProject(project.stream, renamed), instance, "digits")
    assert DeltaTable(tables[0]).version() == version


@pytest.mark.parametrize(
    "settings",
    [{"key": ["id"]}, {"order_by": ["at"]}, {"delete_where": "gone"}],
    ids=["a key without an order", "an order without a key", "a deletion without a key"],
)
def test_settings_of_an_upsert_that_do_not_fit_are_refused(stream, settings):
    with pytest.raises(InvalidInput):
        derived_table(source=stream, table="orders", **settings)


def automation_of(pipeline, instance):
    """Return a function that evaluates the automation conditions, and returns the requested assets."""
    cursors = [None]

    def requested() -> set[str]:
        result = dg.evaluate_automation_conditions(pipeline.definitions, instance, cursor=cursors[-1])
        cursors.append(result.cursor)
        return {
            each.key.to_user_string()
            for each in result.results
            if each.true_subset.size and each.key != raw_key(pipeline.stream)
        }

    return requested


@dagsters_own_warnings
@pytest.mark.filterwarnings("ignore:Parameter `include_sources`")
@pytest.mark.usefixtures("spark")
def test_a_router_and_its_tables_are_requested_together_and_have_all_documents_after_the_run(
    project, kinesis, source, stream, instance, tmp_path
):
    routed = RoutedProject(kinesis, stream, tmp_path)
    pipeline = StreamProject(stream, dg.Definitions.merge(project.definitions, routed.definitions))
    requested = automation_of(pipeline, instance)
    source.create(1)
    requested()
    for kinds in (["placed", "other", "paid"], ["paid", "placed", "paid"]):
        routed.put(*kinds)
        execute(pipeline, instance, A)
        names = requested()
        assert names == {*routed.names}
        materialize(pipeline, instance, *names)
    assert routed.numbers == {"placed": [0, 4], "paid": [2, 3, 5]}
    assert requested() == set()


@pytest.mark.filterwarnings("ignore:Parameter `include_sources`")
class TestRequests:
    """When Dagster requests a derived table."""

    @pytest.fixture
    def requested(self, pipeline, instance):
        return automation_of(pipeline, instance)

    def landed(self, pipeline, instance, shard_id):
        instance.add_dynamic_partitions(str(shard_partitions(pipeline.stream).name), [A, B])
        instance.report_runless_asset_event(
            dg.AssetMaterialization(raw_key(pipeline.stream), partition=shard_id)
        )

    def test_a_table_is_requested_once_after_rows_landed(self, pipeline, instance, requested):
        requested()
        self.landed(pipeline, instance, A)
        assert (requested(), requested()) == ({"numbers", "counts"}, set())

    def test_a_shard_that_waits_for_its_parent_delays_nothing(self, pipeline, instance, requested):
        requested()
        self.landed(pipeline, instance, A)  # B is never materialized
        assert requested() == {"numbers", "counts"}
        self.landed(pipeline, instance, A)
        assert requested() == {"numbers", "counts"}

    def test_a_run_over_the_stream_that_is_in_progress_delays_nothing(self, pipeline, instance, requested):
        requested()
        job = pipeline.definitions.resolve_implicit_global_asset_job_def()
        run = instance.create_run_for_job(
            job, status=dg.DagsterRunStatus.STARTED, asset_selection=frozenset([raw_key(pipeline.stream)])
        )
        self.landed(pipeline, instance, A)
        assert requested() == {"numbers", "counts"}
        assert instance.get_run_by_id(run.run_id).status is dg.DagsterRunStatus.STARTED

    def test_a_landing_in_a_run_that_includes_the_tables_requests_nothing(
        self, pipeline, instance, requested
    ):
        requested()
        instance.add_dynamic_partitions(str(shard_partitions(pipeline.stream).name), [A])
        daemon = Daemon(pipeline, instance)
        for included, expected in (({NUMBERS, COUNTS}, set()), (set(), {"numbers", "counts"})):
            run = instance.create_run_for_job(
                pipeline.definitions.resolve_implicit_global_asset_job_def(),
                status=dg.DagsterRunStatus.STARTED,
                asset_selection=frozenset({raw_key(pipeline.stream), *included}),
            )
            daemon.report_event(run, dg.AssetMaterialization(raw_key(pipeline.stream), partition=A))
            daemon.end(run, dg.DagsterRunStatus.SUCCESS)
            assert requested() == expected
