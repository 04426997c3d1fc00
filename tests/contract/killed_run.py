"""A run in a process that kills itself around a commit: `killed_run.py POINT PROJECT`, the latter in JSON.

A point is "before" or "after", followed by "freeze" (the first commit) or "commit" (the first one with rows).
"""

import json
import os
import signal
import sys

import dagster as dg

from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.table.snapshot import TableSnapshot

when, commit_kind = sys.argv[1].split()
arguments = json.loads(sys.argv[2])
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
project = StreamProject.from_settings(**arguments["project"])
list(project.materialize(dg.DagsterInstance.ephemeral(), arguments["shards"]))
