"""The next run of a derived table reports the commits that earlier runs could not report."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from kinesis_assets.dagster.derived.derived_events import (
    COMPARED,
    MAX_COMMITS,
    derived_metadata,
    metadata_after,
    report_missing_events,
)
from kinesis_assets.dagster.events.metadata import exact_values
from kinesis_assets.dagster.events.missing_events import ComparisonProgress
from kinesis_assets.derive.commit_entry import FORMAT, DerivedCommit
from kinesis_assets.derive.cursor import Cursor
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.table.commit_ids import new_id
from support.daemon import Daemon, Status
from support.sensor_state import record_dead_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kinesis_assets.dagster.stream_project import StreamProject

pytestmark = pytest.mark.slow

KEY = dg.AssetKey("orders")
SOURCE = "11111111-2222-3333-4444-555555555555"
SCHEMA = {
    "type": "struct",
    "fields": [{"name": "_batch_id", "type": "long", "nullable": True, "metadata": {}}],
}


@dataclass
class Orders:
    """A derived table whose commits have no files, and the runs of its asset."""

    table: DerivedTable
    project: StreamProject
    instance: dg.DagsterInstance
    commits: list[DerivedCommit] = field(default_factory=list)

    def commit(self, *by: str | None, rows: int = 1, **fields: Any) -> list[DerivedCommit]:
        """Commit once for each of the runs, without an event."""
        version = self.table.open_or_create(SOURCE, SCHEMA, ())
        made = []
        for run_id in by:
            previous = self.commits[-1].commit_id if self.commits else None
            made.append(
                DerivedCommit(
                    format=FORMAT,
                    commit_id=max(new_id(), (previous or 0) + 1),  # ids of the same millisecond have no order
                    previous=previous,
                    batch_id=new_id(),
                    at=datetime.now(UTC),
                    by=run_id,
                    examined=0,
                    cursor=Cursor(source=SOURCE, commit=len(self.commits)),
                    rows=rows,
                    **fields,
                )
            )
            self.commits.append(made[-1])
            self.table.entries.write(made[-1])
        version.commit(made[-1], [], exclusive=False)
        return made

    def run(self, *, commits: int = 0) -> str:
        """Run the asset, which commits without an event before that, and return the run's id."""

        @dg.asset(key=KEY)
        def orders() -> dg.MaterializeResult[Any]:
            context = dg.AssetExecutionContext.get()
            if commits:
                self.commit(*[context.run.run_id] * commits)
            with self.project.open_stream() as opened:
                progress = report_missing_events(context, opened, KEY, self.table)
            return dg.MaterializeResult(metadata=metadata_after(progress, [])[0])

        return dg.materialize([orders], instance=self.instance).run_id

    @property
    def reported(self) -> list[dict[str, Any]]:
        """The exact values of the events that cover commits, oldest first."""
        records = self.instance.fetch_materializations(KEY, limit=1000, ascending=True).records
        found = [exact_values(record.asset_materialization) for record in records]
        return [exact for exact in found if "commit_id" in exact]

    @property
    def covered(self) -> list[tuple[int, str]]:
        """Number of commits and last commit of each of these events."""
        return [(facts["commits"], facts["commit_id"]) for facts in self.reported]


@pytest.fixture
def orders(tmp_path: Path, project: StreamProject, instance: dg.DagsterInstance) -> Orders:
    return Orders(DerivedTable(str(tmp_path / "orders")), project, instance)


def last(commits: list[DerivedCommit]) -> str:
    return str(commits[-1].commit_id)


def event(*commits: DerivedCommit) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(KEY, metadata=derived_metadata(commits))


def test_the_commits_of_a_run_that_died_before_its_event_are_reported_once(orders):
    made = orders.commit("gone", "gone", rows=3, deleted=1, bad_records=2)
    orders.run()
    orders.run()
    assert orders.reported == [
        {
            "rows": 6,
            "rows_deleted": 2,
            "commits": 2,
            "bad_records": 4,
            "cursor": str(made[-1].cursor),
            "commit_id": last(made),
        }
    ]


def test_the_commits_of_two_runs_are_two_events_in_the_order_of_the_commits(orders):
    first = orders.commit("gone", "gone")
    second = orders.commit(None)
    orders.run()
    orders.run()
    assert orders.covered == [(2, last(first)), (1, last(second))]


def test_the_commits_of_maintenance_have_no_event(orders):
    first = orders.commit("gone")
    orders.commit(None, rows=0, maintains=True)
    orders.run()
    assert orders.covered == [(1, last(first))]


def test_the_commits_that_a_run_reported_together_are_not_reported_again(orders, instance):
    made = orders.commit("gone", "gone", "gone")
    instance.report_runless_asset_event(event(*made))
    orders.run()
    assert orders.covered == [(3, last(made))]


def test_the_event_of_an_earlier_version_covers_its_commits(orders, instance):
    made = orders.commit("gone", "gone")
    before = {"rows": 2, "commits": 2, "commit_id": last(made)}
    instance.report_runless_asset_event(dg.AssetMaterialization(KEY, metadata=before))
    orders.run()
    assert orders.covered == [(2, last(made))]


def test_what_an_event_of_an_earlier_version_has_compared_is_not_compared_again(orders, instance):
    compared = orders.commit("gone")
    before = {COMPARED: json.dumps({"through": compared[0].commit_id})}
    instance.report_runless_asset_event(dg.AssetMaterialization(KEY, metadata=before))
    made = orders.commit("gone")
    orders.run()
    assert orders.covered == [(1, last(made))]


def test_only_the_commits_after_the_last_event_of_a_run_are_reported(orders, instance):
    reported = orders.commit("gone")
    instance.report_runless_asset_event(event(*reported))
    made = orders.commit("gone", "gone")
    orders.run()
    assert orders.covered == [(1, last(reported)), (2, last(made))]


def test_the_commits_of_an_unfinished_run_are_reported_after_its_end(orders, daemon: Daemon):
    run = daemon.run({})
    made = orders.commit(run.run_id)
    orders.run()
    assert orders.covered == []
    daemon.end(run, Status.CANCELED)
    orders.run()
    assert orders.covered == [(1, last(made))]


def test_the_commits_of_an_earlier_attempt_of_the_same_run_are_reported(orders):
    orders.run(commits=2)
    assert orders.covered == [(2, last(orders.commits))]


def test_a_commit_behind_one_that_a_concurrent_run_reported_is_reported(orders, instance):
    died = orders.commit("gone")
    other = orders.commit("other")
    instance.report_runless_asset_event(event(*other))
    orders.run()
    orders.run()
    assert orders.covered == [(1, last(other)), (1, last(died))]


def test_a_commit_whose_event_is_behind_many_others_is_not_reported_again(orders, instance):
    made = orders.commit("gone")
    instance.report_runless_asset_event(event(*made))
    for _ in range(150):
        instance.report_runless_asset_event(event())
    orders.run()
    assert orders.covered == [(1, last(made))]


def test_the_first_comparison_of_an_instance_reports_a_bounded_number_of_commits(orders):
    made = orders.commit(*["gone"] * (MAX_COMMITS + 5))
    orders.run()
    orders.run()
    assert orders.covered == [(MAX_COMMITS, last(made))]


def test_later_comparisons_leave_commits_beyond_their_limit_to_the_next_run(orders):
    before = orders.commit("gone")
    orders.run()
    made = orders.commit(*["gone"] * (MAX_COMMITS + 5))
    orders.run()
    expected = [(1, last(before)), (MAX_COMMITS, last(made))]
    assert orders.covered == expected
    for _ in range(2):
        orders.run()
        assert sorted(orders.covered) == sorted([*expected, (5, last(made[:5]))])


def test_commits_behind_many_that_were_reported_are_reported_after_the_end_of_their_run(
    orders, daemon: Daemon, instance
):
    run = daemon.run({})
    made = orders.commit(run.run_id, run.run_id)
    others = orders.commit(*["other"] * 30)
    instance.report_runless_asset_event(event(*others))
    orders.run()
    for _ in range(3):
        later = orders.commit(*["another"] * 30)
        instance.report_runless_asset_event(event(*later))
        orders.run()
    daemon.end(run, Status.CANCELED)
    orders.run()
    assert (2, last(made)) in orders.covered
    assert len(orders.covered) == 5


def test_an_event_says_how_far_the_commits_were_compared(orders, daemon: Daemon, instance):
    run = daemon.run({})
    waiting = orders.commit(run.run_id, run.run_id)
    own = orders.commit("other")
    instance.report_runless_asset_event(event(*own))
    orders.run()
    (newest,) = instance.fetch_materializations(KEY, limit=1).records
    assert json.loads(exact_values(newest.asset_materialization)[COMPARED]) == {
        "through": own[0].commit_id,
        "left": [[waiting[1].commit_id, None, [run.run_id]]],
    }


def test_the_progress_moves_with_the_commits_of_a_run_up_to_one_of_another_run(orders):
    first, other, last_ = orders.commit("own", "other", "own")
    _, progress = metadata_after(ComparisonProgress(), [first])
    assert progress.through == first.commit_id
    _, progress = metadata_after(progress, [last_])
    assert progress.through == first.commit_id
    assert other.previous == first.commit_id


def test_commits_before_an_unreadable_record_are_left_out(orders):
    orders.commit("gone")
    lost = orders.commit("gone")
    made = orders.commit("gone")
    orders.table.files.delete_file(f"_kinesis/derived/{last(lost)}.json")
    orders.run()
    assert orders.covered == [(1, last(made))]


def test_a_table_that_does_not_exist_has_no_missing_events(orders):
    orders.run()
    assert orders.covered == []


@pytest.fixture
def on_disk() -> Iterator[dg.DagsterInstance]:
    """An instance that has the states of sensors."""
    with dg.instance_for_test() as instance:
        yield instance


def test_the_commits_of_a_dead_run_are_reported_although_it_is_unfinished(orders, project, source, on_disk):
    source.create(1)
    orders.instance = on_disk
    daemon = Daemon(project, on_disk)
    daemon.commit(["shardId-000000000000"], None)
    run = daemon.run({})
    made = orders.commit(run.run_id)
    record_dead_run(on_disk, source.name, daemon.opened.table, run)
    orders.run()
    assert orders.covered == [(1, last(made))]
