"""`kinesis-assets` in a process that kills itself around a commit: `killed_run.py POINT COMMAND...`.

A point is "before" or "after", followed by "freeze" (the first commit) or "commit" (the first one with rows).
"""

import os
import signal
import sys

from kinesis_assets import cli
from kinesis_assets.table.snapshot import TableSnapshot

when, commit_kind = sys.argv.pop(1).split()
original_commit = TableSnapshot.commit


def commit_and_die(self: TableSnapshot, files: list, **pointers: object) -> None:
    """Commit, and kill the process before or after it if this is the commit to die at."""
    last = commit_kind == "freeze" or bool(files)
    if last and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    original_commit(self, files, **pointers)
    if last and when == "after":
        os.kill(os.getpid(), signal.SIGKILL)


TableSnapshot.commit = commit_and_die
cli.main()
