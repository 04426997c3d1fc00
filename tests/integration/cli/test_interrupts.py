"""Ctrl-C ends a command without a traceback, and Spark with it, at every point before records are read."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from support.paused_command import PausePoint

INTERRUPTED = 130


@pytest.fixture
def stream_with_record(kinesis, stream) -> None:
    """A stream with one record."""
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.put_record(StreamName=stream, PartitionKey="k", Data=b"abc")


def dagster_home(folder: Path) -> Path:
    """Create the folder of a Dagster instance."""
    home = folder / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}")
    return home


def statuses_in(home: Path) -> set[dg.DagsterRunStatus]:
    """Return the statuses of the runs of an instance."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        return {run.status for run in instance.get_runs()}


def non_empty_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


@pytest.mark.parametrize(
    "module",
    ["click", "kinesis_assets.cli.command_line", "dagster", "deltalake"],
)
@pytest.mark.usefixtures("stream_with_record")
def test_an_interrupt_during_an_import_ends_the_command_silently(stream_options, tmp_path, module):
    done = PausePoint.of_import(tmp_path, module).interrupt("run", *stream_options)
    assert (done.returncode, done.stdout, non_empty_lines(done.stderr)) == (INTERRUPTED, "", [])


@pytest.mark.parametrize("module", ["dagster", "kinesis_assets.table.run_files.heartbeat"])
@pytest.mark.usefixtures("stream_with_record")
def test_an_interrupt_that_python_discards_ends_the_command_nevertheless(stream_options, tmp_path, module):
    done = PausePoint.of_finalizer(tmp_path, module).interrupt("run", *stream_options)
    assert (done.returncode, done.stdout) == (INTERRUPTED, "")
    assert "Exception ignored" not in done.stderr


@pytest.fixture(scope="module")
def interrupted(kinesis, settings, tmp_path_factory):
    """A run that was interrupted while Spark started: how it ended, where it paused, and its instance."""
    folder = tmp_path_factory.mktemp("interrupted")
    home = dagster_home(folder)
    kinesis.create_stream(StreamName=folder.name, ShardCount=1)
    kinesis.put_record(StreamName=folder.name, PartitionKey="k", Data=b"abc")
    place = ["--table", str(folder / "table"), "--endpoint-url", str(settings.endpoint_url)]
    starting = PausePoint.of_spark(folder)
    done = starting.interrupt("run", "--stream", folder.name, *place, DAGSTER_HOME=str(home))
    return done, starting, home


def test_an_interrupt_while_spark_starts_ends_the_command(interrupted):
    done, _, _ = interrupted
    assert (done.returncode, done.stdout) == (INTERRUPTED, "")
    first, *others = non_empty_lines(done.stderr)
    assert first == "output of Java"
    assert all(line.startswith("Error: stream ") for line in others), done.stderr
    assert len(others) <= 1


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see that Java has ended")
def test_an_interrupt_ends_the_java_process_that_is_starting(interrupted):
    _, starting, _ = interrupted
    java = Path("/proc", starting.reached.read_text().strip(), "stat")
    assert not java.exists() or java.read_text().rpartition(")")[2].split()[0] == "Z"


def test_an_interrupted_run_ends_as_canceled(interrupted):
    _, _, home = interrupted
    assert statuses_in(home) <= {dg.DagsterRunStatus.CANCELED}  # none if it had not begun


@pytest.mark.parametrize(
    ("command", "options"), [("replay", ["--from", "TRIM_HORIZON"]), ("catch-up", ["--apply"])], ids=str
)
@pytest.mark.usefixtures("stream_with_record")
def test_an_interrupted_job_ends_as_canceled_without_a_traceback(
    stream_options, tmp_path, cli, command, options
):
    assert cli("run", *stream_options).exit_code == 0
    home = dagster_home(tmp_path)
    starting = PausePoint.of_spark(tmp_path)
    done = starting.interrupt(command, *stream_options, *options, DAGSTER_HOME=str(home))
    assert done.returncode in {1, INTERRUPTED}
    assert "Traceback" not in done.stderr
    assert statuses_in(home) <= {dg.DagsterRunStatus.CANCELED}  # none if it had not begun


def test_an_interrupted_demo_prints_where_its_table_is(tmp_path):
    done = PausePoint.of_spark(tmp_path).interrupt("demo", TMPDIR=str(tmp_path))
    assert done.returncode == INTERRUPTED
    assert "Traceback" not in done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("Interrupted"))
    assert str(tmp_path) in line
