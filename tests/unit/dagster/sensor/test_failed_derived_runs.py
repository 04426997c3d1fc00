"""The sensor requests a derived table again whose last run failed, with the back-off of shards."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from dagster._core.execution.plan.objects import StepFailureData, StepSuccessData, UserFailureData
from dagster._utils.error import SerializableErrorInfo
from msgspec import structs

from kinesis_assets import derived_table
from kinesis_assets.dagster.failures import as_failure
from kinesis_assets.dagster.sensor.due_shards import RUNS_PER_TICK
from kinesis_assets.dagster.sensor.sensor_cursor import Cursor
from kinesis_assets.dagster.sensor.sensor_runs import WAITS
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.errors import CallFailed, DerivedTablesFailed
from kinesis_assets.table.run_files.pause import PAUSE_FILE, pause
from support.checked_tables import checked_table
from support.daemon import NOON, PARTITION, Daemon, Status, origin_of
from support.mentions import assert_mentions
from support.shard_ids import A
from support.stream_names import raw_key

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.slow  # hours of ticks

INTERVAL = 300
HOURS = 6
KEYS = [dg.AssetKey(f"table_{number}") for number in range(8)]
FIRST, SECOND, *_ = KEYS
Event = dg.DagsterEventType


class Deployment:
    """The sensor of a stream, and the runs over eight tables below it. No rows land.

    The second table is derived from the first, the others from the raw table.

    Attributes:
        daemon: The sensor.
        now: The sensor's clock.
    """

    def __init__(self, project: StreamProject, instance: dg.DagsterInstance, folder: Path) -> None:
        def table(key: dg.AssetKey) -> dg.AssetsDefinition:
            def transform(rows):
                return rows

            (transform.__name__,) = key.path
            upstream = "table_0" if key == SECOND else None
            path = str(folder / transform.__name__)
            return derived_table(source=project.stream, table=path, upstream=upstream)(transform)

        derived = dg.Definitions(assets=[table(key) for key in KEYS])
        definitions = dg.Definitions.merge(project.definitions, derived)
        self.daemon = Daemon(StreamProject(project.stream, definitions), instance)
        self.now = NOON
        self.daemon.clock = lambda: self.now
        self.daemon.derived = KEYS
        self._instance = instance
        self._error: SerializableErrorInfo | None = None
        self._named: UserFailureData | None = None
        self._job = definitions.resolve_implicit_global_asset_job_def()

    def run(self, *keys: dg.AssetKey, status: Status = Status.STARTED) -> dg.DagsterRun:
        """Create a run over some tables."""
        return self._instance.create_run_for_job(
            self._job,
            status=status,
            asset_selection=frozenset(keys),
            remote_job_origin=origin_of(self._job.name),
        )

    def end(
        self,
        run: dg.DagsterRun,
        *,
        succeeded: Sequence[dg.AssetKey] = (),
        failed: Sequence[dg.AssetKey] = (),
        status: Status | None = None,
    ) -> None:
        """Record how the steps of a run ended, and then the run."""
        for key in (*succeeded, *failed):
            self._report(run, Event.STEP_START, key)
            self._report(run, Event.STEP_SUCCESS if key in succeeded else Event.STEP_FAILURE, key)
        self.daemon.end(run, status or (Status.FAILURE if failed else Status.SUCCESS))

    def fail(self, *keys: dg.AssetKey, error: str | None = None) -> dg.DagsterRun:
        """Record a run over some tables that failed for each of them."""
        run = self.run(*keys)
        self._error = None if error is None else SerializableErrorInfo(error, [], "ValueError")
        self.end(run, failed=keys)
        return run

    def continuous_run(self) -> dg.DagsterRun:
        """Create a run over the raw table and all others. The real one has a tag, too."""
        return self.run(raw_key(self.daemon.project.stream), *KEYS)

    def fail_continuously(self, run: dg.DagsterRun, *keys: dg.AssetKey, error: str = "no column") -> None:
        """Record that some tables failed in a continuous run. Its only step that starts fails."""
        errors = {key.to_user_string(): ValueError(error) for key in keys}
        failure: Any = as_failure(DerivedTablesFailed(self.daemon.project.stream, errors))
        self._named = UserFailureData("failure", failure.description, failure.metadata)
        self.end(run, failed=[raw_key(self.daemon.project.stream)])

    def failing(self) -> dict[str, tuple[int, str]]:
        """Return the number of failed runs and the last one of each table that fails, after a tick."""
        self.daemon.tick()
        tables = Cursor.parse(self.daemon.cursor).failing_tables.items()
        return {name: (table.runs, table.run_id) for name, table in tables if table.runs}

    def requested(self) -> list[dg.AssetKey]:
        """Return the tables that a tick requests, without those of a run over the raw table."""
        requests = [
            request
            for request in self.daemon.tick().run_requests or ()
            if raw_key(self.daemon.project.stream) not in (request.asset_selection or ())
        ]
        assert all(request.asset_check_keys == [] for request in requests)
        assert all(len(request.asset_selection or ()) == 1 for request in requests)
        return [key for request in requests for key in request.asset_selection or ()]

    def requested_after(self, seconds: float) -> list[dg.AssetKey]:
        """Return the tables that the tick after some seconds requests."""
        self.now += seconds
        return self.requested()

    def hours(self, *broken: dg.AssetKey) -> list[dg.AssetKey]:
        """Let some hours pass, with runs that fail for some tables, and return the table of each run."""
        keys: list[dg.AssetKey] = []
        for _ in range(HOURS * 3600 // INTERVAL):
            for key in self.requested_after(INTERVAL):
                keys.append(key)
                run = self.run(key)
                self.end(run, **{"failed" if key in broken else "succeeded": [key]})
        return keys

    def _report(self, run: dg.DagsterRun, event: Event, key: dg.AssetKey) -> None:
        data = {
            Event.STEP_SUCCESS: StepSuccessData(duration_ms=1.0),
            Event.STEP_FAILURE: StepFailureData(error=self._error, user_failure_data=self._named),
        }
        reported = dg.DagsterEvent(
            event.value, run.job_name, step_key=key.path[-1], event_specific_data=data.get(event)
        )
        self._instance.report_dagster_event(reported, run.run_id)

    def restart(self) -> None:
        """Start another daemon, which has the cursor of the sensor and the instance."""
        before, self.daemon = self.daemon, Daemon(self.daemon.project, self._instance)
        self.daemon.clock, self.daemon.derived = before.clock, before.derived
        self.daemon.cursor = before.cursor


@pytest.fixture
def deployment(project, source, instance, tmp_path) -> Deployment:
    source.create(1)
    return Deployment(project, instance, tmp_path)


# The back-off


def test_a_failed_table_is_requested_again_after_half_a_minute(deployment):
    deployment.fail(FIRST)
    assert deployment.requested() == []
    assert deployment.requested_after(WAITS.first - 1) == []
    assert deployment.requested_after(1) == [FIRST]


def test_each_wait_doubles_up_to_a_quarter_of_an_hour(deployment):
    for wait in (30, 60, 120, 240, 480, 900, 900):
        deployment.fail(FIRST)
        assert deployment.requested() == []
        assert deployment.requested_after(wait - 1) == []
        assert deployment.requested_after(1) == [FIRST]


def test_of_eight_tables_only_the_two_that_fail_are_requested_and_at_most_four_times_an_hour(deployment):
    run = deployment.run(*KEYS)
    broken = (KEYS[2], KEYS[6])
    deployment.end(run, succeeded=[key for key in KEYS if key not in broken], failed=broken)
    runs = Counter(deployment.hours(*broken))
    assert runs.keys() == {*broken}
    assert all(HOURS * 2 <= number <= HOURS * 4 for number in runs.values())


def test_a_table_that_succeeds_is_not_requested_any_more(deployment):
    deployment.fail(FIRST)
    assert deployment.requested() == []
    assert deployment.hours() == [FIRST]


def test_a_table_that_a_continuous_run_has_materialized_since_does_not_count_as_failing(deployment):
    deployment.fail(FIRST)
    deployment.requested()
    run = deployment.run(FIRST)
    deployment.requested()
    failing = Cursor.parse(deployment.daemon.cursor).failing_tables[FIRST.to_user_string()]
    deployment.daemon.report_event(run, dg.AssetMaterialization(FIRST))
    deployment.requested()
    well = Cursor.parse(deployment.daemon.cursor).failing_tables[FIRST.to_user_string()]
    assert (failing.runs, well.runs) == (1, 0)


def test_a_table_that_fails_after_a_success_waits_as_after_its_first_failure(deployment):
    for wait in (30, 60, 120):
        deployment.fail(FIRST)
        deployment.requested()
        assert deployment.requested_after(wait) == [FIRST]
    deployment.end(deployment.run(FIRST), succeeded=[FIRST])
    deployment.requested()
    deployment.fail(FIRST)
    deployment.requested()
    assert deployment.requested_after(30) == [FIRST]


def test_the_wait_goes_on_where_the_daemon_was_restarted(deployment):
    for wait in (30, 60, 120):
        deployment.fail(FIRST)
        deployment.restart()
        assert deployment.requested() == []
        deployment.restart()
        assert deployment.requested_after(wait - 1) == []
        deployment.restart()
        assert deployment.requested_after(1) == [FIRST]


def test_a_table_that_failed_before_the_first_tick_is_requested(deployment):
    """The sensor was stopped, or its cursor is lost."""
    deployment.fail(FIRST)
    deployment.now += 7 * 86_400
    assert deployment.requested() == []
    assert deployment.requested_after(WAITS.first) == [FIRST]


def test_a_tick_requests_a_few_tables_and_the_next_one_the_others(deployment):
    failed = KEYS[:5]
    for key in failed:
        deployment.fail(key)
    deployment.requested()
    found = deployment.requested_after(WAITS.first)
    assert len(found) == RUNS_PER_TICK
    for key in found:
        deployment.end(deployment.run(key), succeeded=[key])
    assert {*found, *deployment.requested_after(INTERVAL)} == {*failed}


def test_a_failed_run_is_followed_by_one_run_only(deployment):
    """The daemon may die between the request and the cursor. Dagster creates one run for each key."""
    run = deployment.fail(FIRST)
    deployment.requested()
    cursor = deployment.daemon.cursor
    deployment.now += WAITS.first
    keys = set()
    for _ in range(2):
        deployment.daemon.cursor = cursor
        keys |= {request.run_key for request in deployment.daemon.tick().run_requests if request.run_key}
    assert keys == {f"table_0 after {run.run_id}"}


# Ticks that fail, because Kinesis does not answer


def test_a_failed_table_is_requested_although_the_shards_cannot_be_listed(deployment, faults):
    faults.fail("ListShards", status=400, code="AccessDeniedException")
    for wait in (30, 60):
        deployment.fail(FIRST)
        assert deployment.requested() == []
        with pytest.raises(CallFailed, match="ListShards"):  # nothing has changed since
            deployment.requested_after(wait - 1)
        assert deployment.requested_after(1) == [FIRST]


@pytest.mark.parametrize(
    "content", [b"", b'{"format": 1, "reason": "r", "by": "b", "at": "2026-01-31T12:00:00Z"}']
)
def test_a_failing_tick_requests_no_table_of_a_stream_that_may_be_paused(deployment, faults, content):
    deployment.fail(FIRST)
    deployment.requested()
    faults.fail("ListShards", status=400, code="AccessDeniedException")
    path = Path(deployment.daemon.opened.table.uri, PAUSE_FILE)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(CallFailed, match="ListShards"):
        deployment.requested_after(WAITS.first)


# Tables that are not requested


def test_tables_that_never_failed_are_not_requested(deployment):
    deployment.end(deployment.run(*KEYS), succeeded=KEYS)
    assert deployment.hours() == []


@pytest.mark.parametrize(
    "status",
    [Status.QUEUED, Status.NOT_STARTED, Status.STARTING, Status.STARTED],
    ids=lambda each: each.value,
)
def test_a_table_with_an_unfinished_run_is_not_requested(deployment, status):
    deployment.fail(FIRST)
    deployment.requested()
    deployment.run(FIRST, SECOND, status=status)
    assert deployment.requested_after(WAITS.first) == []


def test_a_table_is_not_requested_while_an_older_run_of_it_is_in_progress(deployment):
    older = deployment.run(FIRST)
    deployment.fail(FIRST)
    deployment.requested()
    assert deployment.requested_after(WAITS.first) == []
    deployment.end(older, failed=[FIRST])
    assert deployment.requested() == [FIRST]


def test_a_canceled_run_ends_the_requests(deployment):
    deployment.fail(FIRST)
    deployment.requested()
    deployment.end(deployment.run(FIRST), status=Status.CANCELED)
    assert deployment.hours() == []


def test_a_table_without_the_automation_is_not_requested(deployment):
    deployment.daemon.derived = KEYS[1:]
    deployment.fail(FIRST)
    assert deployment.hours() == []


def test_a_paused_stream_requests_no_table(deployment):
    deployment.fail(FIRST)
    deployment.requested()
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    pause(deployment.daemon.opened.table, reason="schema change", by="ann", at=at)
    assert deployment.requested_after(WAITS.first) == []


# Runs over several tables


def test_a_failing_table_below_a_healthy_one_is_requested_alone(deployment):
    deployment.end(deployment.run(FIRST, SECOND), succeeded=[FIRST], failed=[SECOND])
    assert set(deployment.hours(SECOND)) == {SECOND}


def test_a_table_below_a_failing_one_is_not_requested(deployment):
    """It is requested when the other one is materialized."""
    deployment.end(deployment.run(FIRST, SECOND), failed=[FIRST])
    assert set(deployment.hours(FIRST)) == {FIRST}


def test_all_tables_of_a_run_that_was_killed_are_requested(deployment):
    deployment.end(deployment.run(FIRST, SECOND), status=Status.FAILURE)
    deployment.requested()
    assert {*deployment.requested_after(WAITS.first)} == {FIRST, SECOND}


def test_the_event_of_a_commit_of_an_earlier_run_is_no_success(deployment):
    """A run reports what the one before it committed, and may fail then."""
    run = deployment.run(FIRST)
    deployment.daemon.report_event(run, dg.AssetMaterialization(FIRST))
    deployment.end(run, failed=[FIRST])
    deployment.requested()
    assert deployment.requested_after(WAITS.first) == [FIRST]


# Continuous runs


@pytest.fixture
def continuous(deployment) -> Deployment:
    """The deployment, by this machine's clock, which is that of the runs."""
    deployment.now = time.time()
    return deployment


def test_each_continuous_run_in_which_a_table_fails_counts_as_a_failure_of_it(continuous):
    for number in range(1, 4):
        run = continuous.continuous_run()
        continuous.fail_continuously(run, SECOND)
        assert continuous.failing() == {"table_1": (number, run.run_id)}


def test_a_table_counts_as_failing_although_the_next_continuous_run_has_started(continuous):
    run = continuous.continuous_run()
    for number in range(1, 4):
        continuous.daemon.tick()
        following = continuous.continuous_run()
        continuous.daemon.tick()
        continuous.fail_continuously(run, SECOND)
        assert continuous.failing() == {"table_1": (number, run.run_id)}
        assert continuous.failing() == {"table_1": (number, run.run_id)}  # each run counts once
        run = following


def test_a_table_that_the_next_continuous_run_has_materialized_does_not_count_as_failing(continuous):
    run, following = continuous.continuous_run(), continuous.continuous_run()
    continuous.daemon.report_event(following, dg.AssetMaterialization(SECOND))
    continuous.fail_continuously(run, SECOND)
    assert continuous.failing() == {}
    continuous.continuous_run()
    assert continuous.failing() == {}


def test_a_failed_run_does_not_count_once_a_later_run_was_canceled(continuous):
    continuous.fail(FIRST)
    assert continuous.failing().keys() == {"table_0"}
    continuous.end(continuous.run(FIRST), status=Status.CANCELED)
    assert continuous.failing() == {}
    continuous.run(FIRST)
    assert continuous.failing() == {}


def test_a_failed_run_does_not_count_once_a_later_run_has_materialized_the_table(continuous):
    continuous.fail(FIRST)
    assert continuous.failing().keys() == {"table_0"}
    run = continuous.run(FIRST)
    continuous.daemon.report_event(run, dg.AssetMaterialization(FIRST))
    continuous.end(run, succeeded=[FIRST])
    assert continuous.failing() == {}
    continuous.run(FIRST)
    assert continuous.failing() == {}


# The checks


def test_a_table_whose_run_failed_turns_the_continuity_red_with_the_reason(deployment, source):
    source.put(A, 3)
    daemon = deployment.daemon
    daemon.commit([A], by=None)
    raw = daemon.opened.table.uri
    daemon.checked = [checked_table(FIRST.to_user_string(), f"{raw}_0", raw)]
    deployment.now = time.time()

    def continuity():
        daemon.tick()
        check = dg.AssetCheckKey(FIRST, "continuity")
        return daemon.instance.get_latest_asset_check_evaluation_record(check).evaluation

    assert continuity().passed
    run = deployment.fail(FIRST, error="ValueError: no column amount\n")
    result = continuity()
    assert not result.passed
    assert_mentions(result.description, "last run failed: ValueError: no column amount", run.run_id)
    deployment.end(deployment.run(FIRST), succeeded=[FIRST])
    assert continuity().passed


def test_a_table_that_fails_in_a_continuous_run_turns_the_continuity_red_with_the_reason(continuous, source):
    source.put(A, 3)
    daemon = continuous.daemon
    daemon.commit([A], by=None)
    raw = daemon.opened.table.uri
    daemon.checked = [checked_table(FIRST.to_user_string(), f"{raw}_0", raw)]
    run = continuous.continuous_run()
    continuous.fail_continuously(run, FIRST, error="no column amount")
    daemon.tick()
    check = dg.AssetCheckKey(FIRST, "continuity")
    result = daemon.instance.get_latest_asset_check_evaluation_record(check).evaluation
    assert not result.passed
    assert_mentions(result.description, "last run failed: ValueError: no column amount", run.run_id)


# Requests of the stream's runs


def test_a_tick_that_requests_a_continuous_run_over_the_tables_requests_no_other(
    make_project, source, instance, tmp_path
):
    source.create(1)
    deployment = Deployment(make_project(follow_for=600.0), instance, tmp_path)
    deployment.fail(FIRST)
    deployment.requested()
    deployment.now += WAITS.first
    (request,) = deployment.daemon.tick().run_requests
    assert set(request.asset_selection) == {raw_key(source.name), *KEYS}


def test_the_skip_reason_names_the_tables_that_wait(deployment):
    deployment.daemon.tick()
    deployment.daemon.run({PARTITION: A})
    run = deployment.fail(FIRST)
    reason = deployment.daemon.tick().skip_reason.skip_message
    assert_mentions(reason, "table_0 waits until", run.run_id)


def test_the_sensor_of_the_definitions_requests_a_table_that_failed(deployment):
    """It targets the tables, which Dagster requires of the assets in its requests."""
    deployment.daemon.clock = None
    deployment.fail(FIRST)
    deployment.daemon.tick()
    name, failing = "table_0", Cursor.parse(deployment.daemon.cursor).failing_tables["table_0"]
    over = structs.replace(failing, until=0.0)
    cursor = structs.replace(Cursor.parse(deployment.daemon.cursor), failing_tables={name: over})
    deployment.daemon.cursor = cursor.encode()
    assert deployment.requested() == [FIRST]
