"""The lines about the progress of a run in its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.harness.waiting import wait_until
from kinesis_assets.dagster.steps.run_log import LOG_INTERVAL, LandingLog, RunLog
from kinesis_assets.ingest.outcome import RunResult, ShardOutcome, ShardState
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.positions.range_stats import RangeStats
from kinesis_assets.table.run_files.task_files import PROGRESS_FOLDER, Progress, ProgressFiles
from kinesis_assets.table.store.storage import TableFolder
from support.mentions import assert_mentions
from support.run_results import reading_facts
from support.virtual_time import VirtualTime

if TYPE_CHECKING:
    from pathlib import Path

A, B = "shardId-000000000000", "shardId-000000000001"


class Lines:
    """A log at a clock that the test sets, and its lines."""

    def __init__(self) -> None:
        self.time = VirtualTime()
        self.lines: list[str] = []
        self.log = RunLog(self.lines.append, clock=self.time.monotonic)

    def show(self, *progress: int, after: float = LOG_INTERVAL) -> None:
        self.time.now += after
        self.log.show(Progress(*progress))


@pytest.fixture
def lines() -> Lines:
    return Lines()


def iteration(**rows_and_lag_by_shard: tuple[int, int]) -> RunResult:
    outcomes = {
        shard_id: ShardOutcome(
            shard_id,
            ShardState.COMMITTED,
            RangeStats(
                start=Position.parse("TRIM_HORIZON"),
                through=Position.after("9", 1),
                first_sequence_number="7",
                last_sequence_number="9",
                rows=rows,
                bytes=1_000_000 * rows,
                checksum=1,
            ),
            facts=reading_facts(millis_behind_latest=lag_ms),
        )
        for shard_id, (rows, lag_ms) in rows_and_lag_by_shard.items()
    }
    return RunResult(1, outcomes)


def test_a_line_has_the_records_the_speed_since_the_last_line_and_the_percent_of_the_lag(lines):
    lines.show(1200, 20_000_000, 75, 100)
    lines.show(9000, 65_000_000, 10, 100)
    first, second = lines.lines
    assert_mentions(first, "1,200 records", "20.0 MB", "2.00 MB/s", "25%")
    assert_mentions(second, "9,000 records", "65.0 MB", "4.50 MB/s", "90%")


def test_lines_keep_their_distance(lines):
    for number in range(1, 31):
        lines.show(number, number, 0, 0, after=1.0)
    assert len(lines.lines) == 3


def test_nothing_is_logged_while_nothing_is_read(lines):
    lines.show(5, 5, 0, 0)
    lines.show(5, 5, 0, 0)
    assert len(lines.lines) == 1


def test_iterations_of_a_continuous_run_are_added_up(lines):
    lines.log.add(iteration(a=(3, 4000), b=(2, 0)))
    lines.time.now += LOG_INTERVAL
    lines.log.add(iteration(a=(5, 1000)))
    (line,) = lines.lines
    assert_mentions(line, "10 records", "10.0 MB", "1.00 MB/s", "75%")


@pytest.mark.slow
def test_a_landing_is_logged_from_the_files_of_all_its_tasks_which_are_deleted(
    lines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    files = ProgressFiles(TableFolder.at(str(tmp_path)), 7)
    other = ProgressFiles(files.folder, 70)
    other.write(A, Progress(1, 1, 1, 1))
    lines.time.now += LOG_INTERVAL
    shown: list[Progress] = []
    show = lines.log.show
    monkeypatch.setattr(lines.log, "show", lambda progress: (show(progress), shown.append(progress)))
    with LandingLog(lines.log, files, interval=0.01):
        files.write(A, Progress(1, 1_000_000, 0, 10))
        wait_until(lambda: lines.lines)
        files.write(A, Progress(5, 5_000_000, 0, 10))
        files.write(B, Progress(2, 2_000_000, 5, 10))
        wait_until(lambda: shown[-1].records == 7)
        lines.time.now += LOG_INTERVAL
        wait_until(lambda: len(lines.lines) == 2)
    assert_mentions(lines.lines[1], "7 records", "7.0 MB", "0.60 MB/s", "75%")
    assert [path.name for path in (tmp_path / PROGRESS_FOLDER).iterdir()] == [f"70-{A}"]


def test_a_folder_that_cannot_be_read_does_not_end_the_landing(lines, tmp_path: Path):
    (tmp_path / "_kinesis").write_text("a file")
    files = ProgressFiles(TableFolder.at(str(tmp_path)), 7)
    with LandingLog(lines.log, files, interval=0.01) as log:
        wait_until(log._thread.is_alive)
    assert lines.lines == []
