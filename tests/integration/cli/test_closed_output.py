"""Commands whose standard output is closed, full or no longer read exit with 1 and one line of error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.harness.waiting import SECONDS
from support.command_line import single_line_error

SCRIPT = Path(sys.prefix, "bin", "kinesis-assets")


@pytest.fixture(params=["--version", "--help"])
def command(request) -> list[str]:
    """The arguments of a command that prints."""
    return [request.param]


def run_redirected(command: list[str], redirection: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose output a shell redirects, as a user does."""
    line = f'"$0" "$@" {redirection}'
    return subprocess.run(
        ["bash", "-c", line, SCRIPT, *command], capture_output=True, text=True, timeout=SECONDS, check=False
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full does not exist")
def test_a_full_output_is_an_error(command):
    done = run_redirected(command, "> /dev/full")
    assert done.returncode == 1
    assert "standard output: No space left on device" in single_line_error(done.stderr)


def test_a_table_that_cannot_be_printed_is_an_error(stream_options, empty_table):
    del empty_table
    done = run_redirected(["positions", *stream_options], ">&-")
    assert done.returncode == 1
    assert "standard output: Bad file descriptor" in single_line_error(done.stderr)


def test_a_closed_output_is_an_error(command):
    done = run_redirected(command, ">&-")
    assert done.returncode == 1
    assert "standard output: Bad file descriptor" in single_line_error(done.stderr)


def test_a_reader_that_disconnects_is_an_error(command):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [SCRIPT, *command], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False
    )
    os.close(writing)
    assert done.returncode == 1
    assert "standard output: Broken pipe" in single_line_error(done.stderr)


def test_a_reader_of_the_first_line_is_no_error(command):
    done = run_redirected(command, "| { read -r line; echo $line; cat > /dev/null; }")
    assert done.returncode == 0
    assert done.stdout
    assert done.stderr == ""


def test_a_closed_standard_error_is_no_error(command):
    done = run_redirected(command, "2>&-")
    assert done.returncode == 0
    assert done.stdout


def test_bad_input_is_reported_although_the_output_is_full(stream_options, empty_table):
    del empty_table
    done = run_redirected(["replay", *stream_options, "--from", "yesterday"], "> /dev/full")
    assert done.returncode == 2
    assert "'yesterday'" in single_line_error(done.stderr)


def test_no_file_is_opened_on_the_descriptor_of_a_closed_output(tmp_path):
    """Otherwise a child process such as Spark's Java would print into that file."""
    code = """
import os, subprocess, sys
from kinesis_assets.cli.output import guard_output
guard_output()
with open(sys.argv[1], "w") as file:
    subprocess.run(["sh", "-c", "echo from the child"])
    assert file.fileno() > 2
"""
    path = tmp_path / "file"
    line = '"$0" -c "$1" "$2" >&- 2>&-'
    subprocess.run(["bash", "-c", line, sys.executable, code, path], timeout=SECONDS, check=True)
    assert path.read_text() == ""
