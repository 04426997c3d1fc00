"""Output, effect and exit codes of `kinesis-assets pause` and `resume`."""

from __future__ import annotations

import json
import re
import shlex
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from deltalake import write_deltalake

from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.role_credentials import credentials_of
from kinesis_assets.table.data_file import PARTITION_COLUMNS, TABLE_SCHEMA
from kinesis_assets.table.run_files.pause import PAUSE_FILE, read_pause
from support.command_line import single_line_error
from support.formats import settings_of, table_of
from support.mentions import assert_mentions
from support.timing import WRITING
from support.token_service import BASE_SECRET, CONFIG, EXTERNAL_ID, ROLE

pytestmark = pytest.mark.slow

COLUMNS = ["stream", "paused", "reason", "by", "at", "safe_until"]


@pytest.fixture
def paused(cli, bench):
    """Run a command on the bench's stream, which one run has read."""
    bench.create()
    bench.put(1)
    bench.run()

    def run(name, *arguments):
        return cli(name, *bench.options, *arguments)

    return run


def test_pause_prints_what_it_stored_and_until_when_no_record_expires(paused, bench):
    done = paused("pause", "--reason", "schema change", "--by", "ann", "--json")
    assert done.exit_code == 0, done.err
    (row,) = done.lines
    assert list(row) == COLUMNS
    assert (row["paused"], row["reason"], row["by"]) == (True, "schema change", "ann")
    shard = bench.at("shardId-000000000000")
    assert datetime.fromisoformat(row["safe_until"]) == shard.complete_until + timedelta(hours=24)


def test_records_that_a_catch_up_is_still_to_add_expire_first(paused, bench):
    (shard_id,) = bench.shard_ids
    shard = bench.at(shard_id)
    since = shard.complete_until - timedelta(hours=20)
    gap = Gap(after=shard.position, since=since, next_sequence_number=None, until=since, to_fill=True)
    bench.forge_shards(shard_id, gaps=(gap,))
    (row,) = paused("pause", "--reason", "schema change", "--by", "ann", "--json").lines
    assert datetime.fromisoformat(row["safe_until"]) == since + timedelta(hours=24)


def test_a_run_is_refused_in_one_line_with_the_reason_and_the_way_out(paused, bench):
    paused("pause", "--reason", "schema change", "--by", "ann")
    bench.put(2)
    version = bench.version
    done = paused("run")
    assert (done.exit_code, done.out) == (1, "")
    error = single_line_error(done.err)
    assert_mentions(error, "ann", "schema change")
    assert bench.version == version


def test_a_refused_run_names_the_whole_command_that_resumes_the_stream(
    paused, bench, cli, tmp_path, monkeypatch
):
    paused("pause", "--reason", "schema change", "--by", "ann")
    (command,) = re.findall("`(.+?)`", paused("run").err)
    name, *arguments = shlex.split(command)
    assert name == "kinesis-assets"
    monkeypatch.chdir(tmp_path)  # it works from any folder
    assert cli(*arguments).exit_code == 0
    assert read_pause(bench.table) is None


def test_the_command_that_resumes_the_stream_of_an_iceberg_table_opens_it(bench, cli, tmp_path):
    bench.table = table_of("iceberg", str(tmp_path / "iceberg"), WRITING)
    bench.create()
    bench.put(1)
    bench.run()
    settings = settings_of(bench.table)
    catalog = ["--set", "format=iceberg", "--set", f"catalog={json.dumps(settings['catalog'])}"]
    done = cli("pause", *bench.options, *catalog, "--reason", "schema change", "--by", "ann")
    assert done.exit_code == 0, done.err
    _, *arguments = shlex.split(read_pause(bench.table).command)
    assert cli(*arguments).exit_code == 0
    assert read_pause(bench.table) is None


@pytest.mark.usefixtures("role")
def test_the_command_that_resumes_a_stream_with_a_role_assumes_it_in_the_same_way(
    paused, bench, cli, sts, tmp_path, monkeypatch
):
    config = tmp_path / "aws-config"
    config.write_text(CONFIG)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    account = [f"role_arn={ROLE}", f"external_id={EXTERNAL_ID}", "profile_name=base", "session_name=on-call"]
    options = [word for each in account for word in ("--set", each)]
    done = paused("pause", *options, "--reason", "schema change", "--by", "ann")
    assert done.exit_code == 0, done.err
    command = read_pause(bench.table).command
    credentials_of.cache_clear()
    done = cli(*shlex.split(command)[1:])
    assert done.exit_code == 0, done.err
    assert {request["RoleSessionName"] for request in sts.requests} == {"on-call"}
    assert BASE_SECRET not in command


def test_resume_prints_the_pause_that_it_ends(paused, bench):
    paused("pause", "--reason", "schema change", "--by", "ann")
    (row,) = paused("resume", "--json").lines
    assert list(row) == COLUMNS
    assert (row["paused"], row["reason"], row["by"]) == (False, "schema change", "ann")
    bench.run()
    done = paused("resume", "--json")
    assert done.err == "The stream was not paused.\n"
    (row,) = done.lines
    assert (row["paused"], row["reason"], row["by"], row["at"]) == (False, None, None, None)


def test_resume_deletes_a_damaged_pause_and_says_so(paused, bench):
    Path(bench.table.uri, PAUSE_FILE).write_text("{")
    assert paused("run").exit_code == 1
    done = paused("resume")
    assert done.exit_code == 0
    assert "deleted" in done.err
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
    done = cli("pause", *bench.options, "--reason", "a")
    assert (done.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert bench.table.uri in done.err
    assert cli("pause", *bench.options).exit_code == 2
    bench.run()
    assert cli("pause", *bench.options, "--reason", " ").exit_code == 2


# While Kinesis cannot be reached

UNREACHABLE = ["--endpoint-url", "http://127.0.0.1:1"]


def test_a_stream_is_paused_and_resumed_while_kinesis_cannot_be_reached(paused, bench):
    done = paused("pause", *UNREACHABLE, "--reason", "an outage", "--by", "ann", "--json")
    assert done.exit_code == 0, done.err
    assert f"stream {bench.stream}: " in done.err
    (row,) = done.lines
    shard = bench.at("shardId-000000000000")
    assert datetime.fromisoformat(row["safe_until"]) == shard.complete_until + timedelta(hours=24)
    assert paused("run").exit_code == 1
    (row,) = paused("resume", *UNREACHABLE, "--json").lines
    assert (row["paused"], row["reason"]) == (False, "an outage")
    assert paused("plan").exit_code == 0


@pytest.mark.parametrize("option", [("--stream", "other"), ("--region", "eu-west-1")])
@pytest.mark.parametrize("name", ["pause", "resume"])
def test_a_table_of_another_stream_is_refused_while_kinesis_cannot_be_reached(paused, bench, name, option):
    paused("pause", "--reason", "schema change")
    pause = Path(bench.table.uri, PAUSE_FILE)
    before = pause.read_text()
    reason = ["--reason", "a mistake"] if name == "pause" else []
    done = paused(name, *UNREACHABLE, *option, *reason)
    assert done.exit_code == 1
    assert bench.stream in single_line_error(done.err)
    assert pause.read_text() == before


def test_a_table_that_names_no_stream_is_not_paused_while_kinesis_cannot_be_reached(cli, bench):
    write_deltalake(bench.table.uri, TABLE_SCHEMA.empty_table(), partition_by=PARTITION_COLUMNS)
    done = cli("pause", *bench.options, *UNREACHABLE, "--reason", "an outage")
    assert done.exit_code == 1
    assert "DescribeStreamSummary failed" in single_line_error(done.err)
    assert not Path(bench.table.uri, PAUSE_FILE).exists()
