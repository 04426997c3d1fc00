"""The bar of long commands: on a terminal only."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import sys
from kinesis_assets.cli.progress import progress_bar
from kinesis_assets.dagster.run_log import RunLog
from kinesis_assets.table.progress import Progress

with progress_bar("reading", as_json={as_json}):
    RunLog(lambda line: None).show(Progress(records=1000, bytes=2_500_000, lag_ms=25, first_lag_ms=100))
print("done", "rich" in sys.modules)
"""


def run_on_a_terminal(as_json):
    """Return what the script prints to a terminal."""
    terminal, end = os.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    with os.fdopen(terminal, "rb") as printed:
        script = SCRIPT.format(as_json=as_json)
        subprocess.run([sys.executable, "-c", script], stdout=end, stderr=end, env=environment, check=True)
        os.close(end)
        return os.read(printed.fileno(), 1 << 16).decode()


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
