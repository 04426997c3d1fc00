"""The bar of long commands: on a terminal only."""

from __future__ import annotations

import subprocess
import sys

from support.terminal import printed_on_a_terminal

SCRIPT = """
import sys
from kinesis_assets.cli.output import progress_bar
from kinesis_assets.dagster.steps.run_log import RunLog
from kinesis_assets.table.run_files.task_files import Progress

with progress_bar("reading", as_json={as_json}):
    RunLog(lambda line: None).show(Progress(records=1000, bytes=2_500_000, lag_ms=25, first_lag_ms=100))
print("done", "rich" in sys.modules)
"""


def run_on_a_terminal(as_json):
    """Return what the script prints to a terminal."""
    return printed_on_a_terminal(sys.executable, "-c", SCRIPT.format(as_json=as_json))


def test_on_a_terminal_the_bar_shows_what_was_read():
    printed = run_on_a_terminal(as_json=False)
    assert "reading" in printed
    assert "1,000 records, 2.5 MB" in printed
    assert "done True" in printed


def test_with_json_there_is_no_bar():
    assert run_on_a_terminal(as_json=True) == "done False\r\n"


def test_in_a_pipe_there_is_no_bar_and_its_library_is_not_loaded():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(as_json=False)], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("done False\n", "")
