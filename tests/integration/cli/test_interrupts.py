"""Ctrl-C before anything is read: the command ends, and nothing else is printed, by it or by Spark."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from support.paused_command import PausePoint

INTERRUPTED = 130


@pytest.fixture
def put(kinesis, stream) -> None:
    """A stream with a record."""
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.put_record(StreamName=stream, PartitionKey="k", Data=b"abc")


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


@pytest.mark.parametrize(
    "module",
    ["click", "kinesis_assets.cli.command_line", "dagster", "kinesis_assets.dagster.in_process", "deltalake"],
)
@pytest.mark.usefixtures("put")
def test_while_something_is_imported(stream_options, tmp_path, module):
    done = PausePoint.of_import(tmp_path, module).interrupt("run", *stream_options)
    assert (done.returncode, done.stdout, lines(done.stderr)) == (INTERRUPTED, "", [])


@pytest.mark.usefixtures("put")
def test_while_spark_starts(stream_options, tmp_path):
    done = PausePoint.of_spark(tmp_path).interrupt("run", *stream_options)
    assert (done.returncode, done.stdout) == (INTERRUPTED, "")
    first, *others = lines(done.stderr)
    assert first == "noise before"
    assert all(line.startswith("Error: stream ") for line in others), done.stderr
    assert len(others) <= 1


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="elsewhere Java ends by itself")
@pytest.mark.usefixtures("put")
def test_the_java_that_starts_ends_with_the_command(stream_options, tmp_path):
    moment = PausePoint.of_spark(tmp_path)
    moment.interrupt("run", *stream_options)
    java = Path("/proc", moment.reached.read_text().strip(), "stat")
    assert not java.exists() or java.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.usefixtures("put")
def test_the_run_is_marked_as_ended(stream_options, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").touch()
    PausePoint.of_spark(tmp_path).interrupt("run", *stream_options, DAGSTER_HOME=str(home))
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert all(run.is_finished for run in instance.get_runs())


@pytest.mark.usefixtures("put")
def test_a_replay_while_spark_starts(stream_options, tmp_path, cli):
    assert cli("run", *stream_options).exit_code == 0
    done = PausePoint.of_spark(tmp_path).interrupt("replay", *stream_options, "--from", "TRIM_HORIZON")
    assert done.returncode in {1, INTERRUPTED}
    assert "Traceback" not in done.stderr


def test_a_demonstration_says_where_its_table_is(tmp_path):
    done = PausePoint.of_spark(tmp_path).interrupt("demo", TMPDIR=str(tmp_path))
    assert done.returncode == INTERRUPTED
    assert "Traceback" not in done.stderr
    assert f"Interrupted before the verification. The committed rows are in {tmp_path}" in done.stderr
