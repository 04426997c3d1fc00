"""Output, effect and exit codes of `kinesis-assets pause` and `resume`."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from kinesis_assets.table.pause import PAUSE_FILE
from support.command_line import single_line_error

COLUMNS = ["stream", "paused", "reason", "by", "at", "safe_until"]


@pytest.fixture
def paused(cli, bench):
    """Run a command on the bench's stream, which one run has read."""
    bench.create()
    bench.put(1)
    bench.run()

    def run(name, *arguments):
        place = ["--table", bench.table.uri, "--endpoint-url", str(bench.settings.endpoint_url)]
        return cli(name, "--stream", bench.stream, *place, *arguments)

    return run


def test_pause_prints_what_it_stored_and_until_when_no_record_expires(paused, bench):
    done = paused("pause", "--reason", "schema change", "--by", "ann", "--json")
    assert done.exit_code == 0, done.err
    (row,) = done.lines
    assert list(row) == COLUMNS
    assert (row["paused"], row["reason"], row["by"]) == (True, "schema change", "ann")
    shard = bench.at("shardId-000000000000")
    assert datetime.fromisoformat(row["safe_until"]) == shard.complete_until + timedelta(hours=24)


def test_a_run_is_refused_in_one_line_with_the_reason_and_the_way_out(paused, bench):
    paused("pause", "--reason", "schema change", "--by", "ann")
    bench.put(2)
    version = bench.version
    done = paused("run")
    assert (done.exit_code, done.out) == (1, "")
    error = single_line_error(done.err)
    assert "paused by ann since " in error
    assert ": schema change. To continue, run `kinesis-assets resume`" in error
    assert bench.version == version


def test_resume_prints_the_pause_that_it_ends(paused, bench):
    paused("pause", "--reason", "schema change", "--by", "ann")
    (row,) = paused("resume", "--json").lines
    assert list(row) == COLUMNS
    assert (row["paused"], row["reason"], row["by"]) == (False, "schema change", "ann")
    bench.run()
    (row,) = paused("resume", "--json").lines
    assert (row["paused"], row["reason"], row["by"], row["at"]) == (False, None, None, None)


def test_resume_deletes_a_damaged_pause_and_says_so(paused, bench):
    Path(bench.table.uri, PAUSE_FILE).write_text("{")
    assert paused("run").exit_code == 1
    done = paused("resume")
    assert done.exit_code == 0
    assert "could not be read. It was deleted" in done.err
    assert not Path(bench.table.uri, PAUSE_FILE).exists()


def test_a_pause_is_shown_by_plan_and_does_not_keep_other_commands_from_working(paused):
    paused("pause", "--reason", "schema change", "--by", "ann")
    done = paused("plan", "--json")
    assert done.exit_code == 0
    assert [(line["of"], line["effect"]) for line in done.lines] == [
        ("stream", "paused"),
        ("table", "resumes"),
        ("shard", "resumes"),
    ]
    assert "schema change" in done.lines[0]["reason"]
    for name in ("positions", "doctor"):
        assert paused(name).exit_code == 0


def test_doctor_reports_a_pause_and_one_that_cannot_be_read(paused, bench):
    def findings():
        done = paused("doctor", "--json")
        return done.exit_code, [line["level"] for line in done.lines if line["check"] == "pause"]

    assert findings() == (0, [])
    paused("pause", "--reason", "schema change")
    assert findings() == (0, ["info"])
    Path(bench.table.uri, PAUSE_FILE).write_text("{")
    assert findings() == (1, ["problem"])


def test_positions_that_cannot_be_read_do_not_keep_anybody_from_pausing(paused, bench):
    for path in Path(bench.table.uri, "_kinesis", "positions").iterdir():
        path.write_text("{")
    (row,) = paused("pause", "--reason", "damaged", "--json").lines
    assert (row["paused"], row["safe_until"]) == (True, None)


def test_a_missing_table_and_a_missing_reason_are_refused(cli, bench, tmp_path):
    bench.create()
    place = ["--table", bench.table.uri, "--endpoint-url", str(bench.settings.endpoint_url)]
    done = cli("pause", "--stream", bench.stream, *place, "--reason", "a")
    assert (done.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert "there is no table" in done.err
    assert cli("pause", "--stream", bench.stream, *place).exit_code == 2
    bench.run()
    assert cli("pause", "--stream", bench.stream, *place, "--reason", " ").exit_code == 2
