"""Line 15 of the contract: trouble turns a check red, with the reason, before records are lost.

`STREAM`, `DERIVED` and `NOTHING_RUNS` are the table: each way in which a stream, a derived table or a
deployment can be unwell, the checks that are red because of it, and after how long. docs/alerts.md has the
same rows.
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from kinesis_assets.errors import KinesisAssetsError
from kinesis_assets.table.positions.positions_chain import POSITIONS_FOLDER
from kinesis_assets.table.run_files.pause import PAUSE_FILE, pause
from support.daemon import FIRST, LAST, Daemon
from support.fixtures.dagster import Source
from support.shard_ids import A, B
from support.shard_lists import omit_shards
from support.timing import READING, set_timing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kinesis_assets.dagster.stream_project import StreamProject
    from kinesis_assets.testing import Clock, Faults
    from support.fixtures.dagster import MakeProject
    from support.fixtures.stream import Clocked

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "alerts.md").read_text()

HOUR = 3600.0
AFTER = {"at once": 0.05, "15 min": 0.31, "1 h": 1.1, "4 h 15 min": 4.3, "6 h": 6.1, "18 h": 18.1}
"""The first tick, in hours, after each of the times in the table."""

TICKS = sorted([*AFTER.values(), 0.24, 0.9, 4.2, 5.9, 17.9])
"""The hours of the ticks: there is one before each of these times too. The first record expires after 24."""

NOT_A_TIME = ("at once", "when you execute it")


class Trouble:
    """A stream with two shards that were read to their tip, and then got five records.

    Attributes:
        daemon: The sensor.
        clock: The clock of the service and of the ticks.
        notified: What the sensor of the page has sent.
    """

    def __init__(
        self,
        source: Source,
        project: StreamProject,
        instance: dg.DagsterInstance,
        faults: Faults,
        clock: Clock,
        alert: Callable[[dg.SensorEvaluationContext], object],
        notified: list[str],
    ) -> None:
        self.source, self.faults, self.clock, self.notified = source, faults, clock, notified
        self.daemon = Daemon(project, instance)
        self.daemon.clock = clock
        self._alert = alert
        self._cursor: str | None = None

    @property
    def folder(self) -> Path:
        """The folder of the table."""
        return Path(self.daemon.opened.table.uri)

    def tick(self) -> None:
        """Evaluate the sensor, which may fail, and then the sensor of the alerts."""
        with suppress(KinesisAssetsError):
            self.daemon.tick()
        with dg.build_sensor_context(self.daemon.instance, cursor=self._cursor) as context:
            self._alert(context)
            self._cursor = context.cursor

    def reopen(self) -> None:
        """Forget what this process has read of the table."""
        vars(self.daemon.opened).pop("table")

    def failed(self) -> dict[str, str]:
        """Return the description of each check that is red."""
        names = self.daemon.project.names
        checks = [dg.AssetCheckKey(names.raw_key, name) for name, _ in self.daemon.opened.checks.defined]
        records = [self.daemon.instance.get_latest_asset_check_evaluation_record(check) for check in checks]
        found = [record.evaluation for record in records if record and record.evaluation]
        return {each.check_name: str(each.description) for each in found if not each.passed}


@dataclass(frozen=True)
class Row:
    """A way in which a stream or a table can be unwell.

    Attributes:
        condition: What is wrong, as in docs/alerts.md.
        red: After how long each check is red.
        begin: Causes it.
        reason: What the description of each red check says.
        meanwhile: What happens before each tick.
        prepare: Changes the stream before it is read for the first time.
        notifies: After how long somebody is notified; None if that does not matter.
    """

    condition: str
    red: Mapping[str, str]
    begin: Callable[[Trouble], object]
    reason: str
    meanwhile: Callable[[Trouble], object] = lambda _: None
    prepare: Callable[[Trouble], object] = lambda _: None
    notifies: str | None = None


@dataclass(frozen=True)
class Elsewhere:
    """A way in which a stream or a table can be unwell, which a test of a check causes.

    Attributes:
        condition: What is wrong, as in docs/alerts.md.
        red: After how long each check is red.
        test: The name of the test, after its module in `tests`.
    """

    condition: str
    red: Mapping[str, str]
    test: str


def nothing(_: Trouble) -> None:
    """The sensor requests runs, but none of them starts."""


def deny(trouble: Trouble, *operations: str, code: str = "AccessDeniedException") -> None:
    for operation in operations:
        trouble.faults.fail(operation, status=400, code=code)


def disconnect(trouble: Trouble) -> None:
    for operation in ("DescribeStreamSummary", "ListShards"):
        trouble.faults.reset(operation)


def recreate(trouble: Trouble) -> None:
    trouble.source.delete()
    trouble.clock.advance(60)
    trouble.source.create(2)


def list_incompletely(trouble: Trouble) -> None:
    set_timing(trouble.daemon.opened.client, list_retries=READING.list_retries)
    omit_shards(trouble.faults, A)


def damage_pause(trouble: Trouble) -> None:
    (trouble.folder / PAUSE_FILE).write_bytes(b"")


def pause_now(trouble: Trouble) -> None:
    at = datetime.fromtimestamp(trouble.clock(), UTC)
    pause(trouble.daemon.opened.table, reason="schema change", by="ann", at=at)


def lose_positions(trouble: Trouble) -> None:
    """Delete the files that hold the positions, in a deployment that has not read them yet."""
    shutil.rmtree(trouble.folder / POSITIONS_FOLDER)
    trouble.reopen()


def lose_table(trouble: Trouble) -> None:
    """Put a file where the table's folder was, so that it cannot be read."""
    shutil.rmtree(trouble.folder)
    trouble.folder.write_text("not a folder")


def delete_table(trouble: Trouble) -> None:
    shutil.rmtree(trouble.folder)


def read(trouble: Trouble) -> None:
    trouble.daemon.commit([A, B], by=None)


def fail_runs(trouble: Trouble) -> None:
    trouble.daemon.end(trouble.daemon.run({FIRST: A, LAST: B}), dg.DagsterRunStatus.FAILURE)


def fail_one_shard(trouble: Trouble) -> None:
    daemon = trouble.daemon
    run = daemon.run({FIRST: A, LAST: B})
    daemon.commit([B], by=run.run_id)
    daemon.report_event(run, dg.AssetMaterialization(daemon.project.names.raw_key, partition=B))
    daemon.end(run, dg.DagsterRunStatus.FAILURE)


def keep_records_for(hours: int) -> Callable[[Trouble], None]:
    def change(trouble: Trouble) -> None:
        trouble.source.keep_records_for(hours)

    return change


BLIND = {"lag": "15 min", "time_to_loss": "1 h", "every_shard_read": "6 h"}
"""What is red while the sensor's ticks fail."""

WITHOUT_TABLE = {"lag": "15 min", "time_to_loss": "1 h"}
"""What is red if the table cannot be read either."""

UNREAD = {"lag": "15 min", "every_shard_read": "6 h", "time_to_loss": "18 h"}
"""What is red while the sensor finds records that nobody reads."""

FAILED = {"every_shard_read": "at once", "lag": "15 min", "time_to_loss": "18 h"}
"""What is red while a shard fails."""

DENIED = "AccessDeniedException"

STREAM: list[Row | Elsewhere] = [
    Row("`ListShards` is denied", BLIND, lambda it: deny(it, "ListShards"), DENIED),
    Row("`DescribeStreamSummary` is denied", BLIND, lambda it: deny(it, "DescribeStreamSummary"), DENIED),
    Row(
        "the credentials have expired",
        BLIND,
        lambda it: deny(it, "DescribeStreamSummary", "ListShards", code="ExpiredTokenException"),
        "ExpiredToken",
    ),
    Row("the endpoint cannot be reached", BLIND, disconnect, "DescribeStreamSummary failed"),
    Elsewhere(
        "the endpoint accepts connections, but does not answer",
        BLIND,
        "unit/dagster/sensor/test_failing_ticks.py::"
        "test_a_service_that_answers_nothing_turns_the_checks_red_within_the_limit_of_a_tick",
    ),
    Row("the list of shards is incomplete", BLIND, list_incompletely, "ListShards"),
    Row("the stream was deleted", BLIND, lambda it: it.source.delete(), "not found"),
    Row("the stream was deleted and created again", BLIND, recreate, "new table"),
    Row("the pause file is damaged", BLIND, damage_pause, "kinesis-assets resume"),
    Row("the table cannot be read", WITHOUT_TABLE, lose_table, "table"),
    Row("the positions are missing or damaged", WITHOUT_TABLE, lose_positions, "positions"),
    Row(
        "the table was deleted, and a run created it again",
        {"continuity": "at once"},
        delete_table,
        "",
        meanwhile=read,
    ),
    Row(
        "the stream is paused",
        {"lag": "at once", "every_shard_read": "at once", "time_to_loss": "at once"},
        pause_now,
        "The stream is paused",
        notifies="18 h",
    ),
    Row("no run starts", UNREAD, nothing, ""),
    Row(
        "every run fails, such as if the table cannot be written to", FAILED, nothing, "", meanwhile=fail_runs
    ),
    Row("one shard fails in every run", FAILED, nothing, A, meanwhile=fail_one_shard),
    Row(
        "the retention is shortened to 24 hours while no run starts",
        UNREAD,
        keep_records_for(24),
        "",
        prepare=keep_records_for(168),
    ),
    Elsewhere(
        "records expired, and were given up",
        {"no_accepted_data_loss": "at once"},
        "unit/dagster/checks/test_table_checks.py::test_a_gap_fails_with_its_shard",
    ),
    Elsewhere(
        "the stream was created again with `on_recreated: restart`, and shards were unread",
        {"no_accepted_data_loss": "at once"},
        "unit/dagster/checks/test_table_checks.py::test_unread_shards_of_a_deleted_stream_are_lost",
    ),
    Elsewhere(
        "a catch-up was interrupted",
        {"no_accepted_data_loss": "1 h", "time_to_loss": "18 h"},
        "unit/dagster/checks/test_table_checks.py::test_a_catch_up_that_was_interrupted_is_asked_for",
    ),
    Elsewhere(
        "a commit does not continue the one before",
        {"continuity": "at once"},
        "unit/dagster/checks/test_tick.py::test_a_break_of_the_chain_turns_the_check_red_without_a_run",
    ),
    Elsewhere(
        "the table was restored to an older version",
        {"continuity": "at once"},
        "unit/dagster/checks/test_commit_checks.py::test_a_table_whose_log_was_set_back_is_a_break",
    ),
    Elsewhere(
        "records are damaged",
        {"bad_records": "at once"},
        "unit/dagster/checks/test_table_checks.py::test_the_share_of_bad_records_is_bounded",
    ),
    Elsewhere(
        "the table has too many small files",
        {"compaction_debt": "1 h"},
        "unit/dagster/checks/test_table_checks.py::test_too_many_small_files_fail",
    ),
    Elsewhere(
        "the [mirror of the positions](migration.md#mirror-the-positions) is late",
        {"lease_table": "15 min"},
        "unit/dagster/checks/test_recorded_checks.py::test_a_late_mirror_turns_the_check_red_without_a_run",
    ),
    Elsewhere(
        "the mirror of the positions failed three times in a row",
        {"lease_table": "at once"},
        "unit/dagster/checks/test_recorded_checks.py::test_a_mirror_that_keeps_failing_turns_the_check_red",
    ),
    Elsewhere(
        "shards are read with GetRecords instead of the [consumer](continuous-runs.md#enhanced-fan-out)",
        {"consumer": "15 min"},
        "unit/dagster/checks/test_recorded_checks.py::test_a_shard_may_be_read_with_getrecords_up_to_the_bound",
    ),
    Elsewhere(
        "the table cannot be registered in the [Data Catalog](catalog.md)",
        {"catalog": "at once"},
        "unit/dagster/test_catalog_entries.py::test_a_denied_registration_of_a_raw_table_turns_its_check_red",
    ),
    Elsewhere(
        "a record is in the table twice",
        {"no_duplicates": "when you execute it"},
        "integration/dagster/test_asset_checks.py::test_duplicates_are_found_by_a_scan",
    ),
]

_DERIVED = "unit/dagster/checks/test_derived_evaluation.py::"
_UNWELL = "unit/dagster/checks/test_unwell_derived_tables.py::"

DERIVED = [
    Elsewhere(
        "no run consumes new rows",
        {"lag": "15 min"},
        f"{_DERIVED}test_a_commit_that_is_not_consumed_may_be_as_old_as_the_bound",
    ),
    Elsewhere(
        "every run fails, such as in its function or at a group that cannot be computed again",
        {"continuity": "at once", "lag": "15 min"},
        f"{_UNWELL}fail_runs",
    ),
    Elsewhere(
        "the first run has not created the table",
        {"lag": "15 min"},
        f"{_DERIVED}test_a_table_that_does_not_exist_yet_is_late",
    ),
    Elsewhere(
        "the table or its source cannot be read",
        {"lag": "15 min"},
        "unit/dagster/checks/test_tick_of_derived_tables.py"
        "::test_a_table_that_cannot_be_read_for_long_turns_the_lag_red_with_the_reason",
    ),
    Elsewhere(
        "consumed rows of the source were deleted, and `on_deleted` is `fail`",
        {"continuity": "at once"},
        f"{_DERIVED}test_rows_that_were_deleted_break_the_continuity_if_runs_fail_because_of_them",
    ),
    Elsewhere(
        "a seek had rows of the source read again, and `on_deleted` is `fail`",
        {"continuity": "at once"},
        f"{_UNWELL}rewind",
    ),
    Elsewhere(
        "another program has deleted rows of the source, or added some",
        {"continuity": "at once"},
        f"{_UNWELL}duplicate_unread",
    ),
    Elsewhere(
        "the source no longer records all commits after the position",
        {"continuity": "at once"},
        f"{_UNWELL}prune_source",
    ),
    Elsewhere(
        "the source was rebuilt",
        {"continuity": "at once"},
        f"{_DERIVED}test_a_source_that_was_rebuilt_breaks_the_continuity",
    ),
    Elsewhere(
        "the source was restored to an older version",
        {"continuity": "at once"},
        f"{_DERIVED}test_a_source_that_was_restored_breaks_the_continuity",
    ),
    Elsewhere(
        "the source was deleted",
        {"continuity": "at once"},
        f"{_DERIVED}test_a_source_that_is_gone_breaks_the_continuity",
    ),
    Elsewhere(
        "the table was restored or overwritten",
        {"continuity": "at once"},
        f"{_DERIVED}test_a_table_that_was_restored_breaks_the_continuity",
    ),
    Elsewhere(
        "the table is of another source",
        {"continuity": "at once"},
        f"{_DERIVED}test_another_source_breaks_the_continuity",
    ),
    Elsewhere(
        "the table is of another asset",
        {"continuity": "at once"},
        f"{_DERIVED}test_another_owner_breaks_the_continuity",
    ),
    Elsewhere(
        "the position is missing or damaged",
        {"continuity": "at once"},
        f"{_DERIVED}test_a_missing_record_of_the_newest_commit_breaks_the_continuity",
    ),
    Elsewhere(
        "rows of the source were given up",
        {"no_accepted_data_loss": "at once"},
        f"{_DERIVED}test_rows_that_were_given_up_turn_the_check_red_until_the_loss_is_accepted",
    ),
    Elsewhere(
        "records cannot be decoded",
        {"bad_records": "at once"},
        f"{_DERIVED}test_the_share_of_records_that_could_not_be_decoded_is_bounded",
    ),
    Elsewhere(
        "the table has too many small files",
        {"compaction_debt": "1 h"},
        f"{_DERIVED}test_the_number_of_small_files_is_bounded",
    ),
    Elsewhere(
        "the table cannot be registered in the [Data Catalog](catalog.md)",
        {"catalog": "at once"},
        "unit/dagster/test_catalog_entries.py"
        "::test_a_service_that_is_down_turns_the_check_red_and_the_tick_goes_on",
    ),
    Elsewhere(
        "a key is in the table twice",
        {"no_duplicates": "when you execute it"},
        "integration/dagster/test_derived_checks.py::test_keys_that_are_there_twice_are_found_by_a_scan",
    ),
]


NOTHING_RUNS = [
    Elsewhere(
        "the daemon is dead",
        {"watch.py": "15 min"},
        "docs/test_alerts.py::test_the_script_finds_a_dead_daemon",
    ),
    Elsewhere(
        "the sensor is stopped",
        {"watch.py": "at once"},
        "docs/test_alerts.py::test_the_script_finds_a_stopped_sensor",
    ),
    Elsewhere(
        "the ticks of the sensor fail",
        {"watch.py": "15 min"},
        "docs/test_alerts.py::test_the_script_finds_ticks_that_fail",
    ),
    Elsewhere(
        "the code location does not load",
        {"watch.py": "at once"},
        "docs/test_alerts.py::test_the_script_finds_a_code_location_that_does_not_load",
    ),
    Elsewhere(
        "the web server does not answer",
        {"watch.py": "at once"},
        "docs/test_alerts.py::test_the_script_is_run_as_it_is",
    ),
]


@pytest.fixture
def stream() -> str:
    """The stream of the page."""
    return "clicks"


@pytest.fixture
def trouble(
    request: pytest.FixtureRequest,
    make_project: MakeProject,
    instance_in_memory: dg.DagsterInstance,
    clocked: Clocked,
    faults: Faults,
    stream: str,
) -> Trouble:
    page: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(block, page)  # noqa: S102  # the page's own lines
    notified: list[str] = []
    page["notify"] = notified.append
    source = Source(clocked.kinesis, stream)
    source.create(2)
    project = make_project(endpoint_url=clocked.settings.endpoint_url)
    trouble = Trouble(
        source, project, instance_in_memory, faults, clocked.clock, page["failed_checks"], notified
    )
    row = getattr(request, "param", None)
    if row is not None:
        row.prepare(trouble)
    trouble.tick()
    trouble.daemon.commit([A, B], by=None)
    trouble.clock.advance(1)
    trouble.tick()
    source.put(A, 5)
    return trouble


def test_a_stream_that_is_well_has_no_red_check(trouble: Trouble) -> None:
    assert (trouble.failed(), trouble.notified) == ({}, [])


@pytest.mark.parametrize(
    ("trouble", "row"),
    [pytest.param(row, row, id=row.condition) for row in STREAM if isinstance(row, Row)],
    indirect=["trouble"],
)
@pytest.mark.usefixtures("sdk_waits")
def test_a_stream_that_is_unwell_has_red_checks_with_the_reason_in_time(trouble: Trouble, row: Row) -> None:
    start = trouble.clock()
    row.begin(trouble)
    red: dict[str, str] = {}
    notified: str | None = None
    for hours in TICKS:
        trouble.clock.advance(start + hours * HOUR - trouble.clock())
        row.meanwhile(trouble)
        trouble.tick()
        failed = trouble.failed()
        label = next((name for name, first in AFTER.items() if first == hours), f"before {hours} h")
        red |= {name: label for name in failed if name not in red}
        assert failed.keys() == red.keys()
        if notified is None and trouble.notified:
            notified = label
    assert red == row.red
    assert all(row.reason in description for description in failed.values())
    assert notified is not None  # before any record expires
    assert row.notifies in (None, notified)


@pytest.mark.parametrize(
    "row",
    [row for row in [*STREAM, *DERIVED, *NOTHING_RUNS] if isinstance(row, Elsewhere)],
    ids=lambda row: row.test,
)
def test_the_tests_of_the_other_rows_exist(row: Elsewhere) -> None:
    module, _, name = row.test.partition("::")
    assert f"def {name}(" in (TESTS / module).read_text()


@pytest.mark.parametrize(
    ("heading", "rows"), [("stream", STREAM), ("derived table", DERIVED), ("deployment", NOTHING_RUNS)]
)
def test_the_page_has_the_rows(heading: str, rows: list[Row | Elsewhere]) -> None:
    section = PAGE.partition(f"| what is wrong with a {heading} ")[2].partition("\n\n")[0]
    found = re.findall(r"^\| (.*?) \| (.*?) \|$", section, re.MULTILINE)
    assert found == [(row.condition, _shown(row.red)) for row in rows]


def _shown(red: Mapping[str, str]) -> str:
    """Return the cell with the red checks, such as `lag` after 15 min."""
    return ", ".join(
        f"`{name}` {after}" if after in NOT_A_TIME else f"`{name}` after {after}"
        for name, after in red.items()
    )
