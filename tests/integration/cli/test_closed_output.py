"""Standard output that is closed, full, or no longer read: one line on standard error, and exit 1."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.commit import freeze
from support.command_line import single_line_error

SCRIPT = Path(sys.prefix, "bin", "kinesis-assets")
COMMANDS = {"version": ["--version"], "help": ["--help"], "help of a command": ["run", "--help"]}


@pytest.fixture
def made(kinesis, stream, settings, table) -> None:
    """The stream and its table, without a row."""
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    listing = StreamClient(stream, settings).listing()
    starts = {shard.shard_id: Position(PositionKind.TRIM_HORIZON) for shard in listing.shards}
    freeze(table, listing, starts)


@pytest.fixture(params=[*COMMANDS, "positions"])
def command(request, stream_options, made) -> list[str]:
    """A command line that prints."""
    del made
    return COMMANDS.get(request.param) or ["positions", *stream_options]


def ended(command: list[str], redirection: str) -> subprocess.CompletedProcess[str]:
    """A command with its output redirected by a shell, as its user would."""
    line = f'"$0" "$@" {redirection}'
    return subprocess.run(
        ["bash", "-c", line, SCRIPT, *command], capture_output=True, text=True, timeout=90, check=False
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is full")
def test_a_full_output(command):
    done = ended(command, "> /dev/full")
    assert done.returncode == 1
    assert "standard output: No space left on device" in single_line_error(done.stderr)


def test_a_closed_output(command):
    done = ended(command, ">&-")
    assert done.returncode == 1
    assert "standard output: Bad file descriptor" in single_line_error(done.stderr)


def test_a_reader_that_goes_away(command):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [SCRIPT, *command], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=90, check=False
    )
    os.close(writing)
    assert done.returncode == 1
    assert "standard output: Broken pipe" in single_line_error(done.stderr)


def test_a_reader_that_takes_one_line(command):
    done = ended(command, "| { read -r line; echo $line; cat > /dev/null; }")
    assert done.returncode == 0
    assert done.stdout
    assert done.stderr == ""


def test_a_closed_standard_error_changes_nothing(command):
    done = ended(command, "2>&-")
    assert done.returncode == 0
    assert done.stdout


def test_what_failed_before_the_output_is_named_too(stream_options, made):
    del made
    done = ended(["replay", *stream_options, "--from", "yesterday"], "> /dev/full")
    assert done.returncode == 2
    assert "use a sequence number or a time" in single_line_error(done.stderr)


def test_no_file_of_a_command_takes_the_place_of_a_closed_output(tmp_path):
    """A child process, as Spark's Java, would print into it."""
    code = """
import os, subprocess, sys
from kinesis_assets.cli.output import guard_output
guard_output()
with open(sys.argv[1], "w") as file:
    subprocess.run(["sh", "-c", "echo from the child"])
    assert file.fileno() > 2
"""
    place = tmp_path / "file"
    line = '"$0" -c "$1" "$2" >&- 2>&-'
    subprocess.run(["bash", "-c", line, sys.executable, code, place], timeout=90, check=True)
    assert place.read_text() == ""
