"""The commits of a derived table's run that failed are reported by its next run."""

from __future__ import annotations

import dagster as dg
import pytest

from kinesis_assets import derived_table
from support.dagster_runs import exact, execute, plain

A = "shardId-000000000000"
KEY = dg.AssetKey("numbers")


@pytest.mark.usefixtures("spark")
def test_what_a_failed_run_committed_is_reported_by_the_next_run(project, source, stream, instance, tmp_path):
    steps = []

    @derived_table(source=stream, table=str(tmp_path / "numbers"), max_bytes=1)
    def numbers(new):
        steps.append(new)
        if len(steps) == 2:
            raise ValueError("invalid column")
        return new.selectExpr("CAST(CAST(data AS STRING) AS INT) AS number")

    definitions = dg.Definitions.merge(project.definitions, dg.Definitions(assets=[numbers]))
    job = definitions.resolve_implicit_global_asset_job_def()

    def materialize():
        return job.execute_in_process(instance=instance, asset_selection=[KEY], raise_on_error=False)

    def events():
        records = instance.fetch_materializations(KEY, limit=10, ascending=True).records
        return [record.asset_materialization for record in records]

    source.create(1)
    for rows in (2, 3):
        source.put(A, rows)
        execute(project, instance, A)
    failed = materialize()
    assert not failed.success
    assert events() == []
    assert materialize().success
    late, own = events()
    assert f"run {failed.run_id}" in late.description
    assert [(plain(each.metadata)["rows"], exact(each.metadata)["commits"]) for each in (late, own)] == [
        (2, 1),
        (3, 1),
    ]
    assert materialize().success
    assert [exact(each.metadata)["commits"] for each in events()] == [1, 1, 0]
