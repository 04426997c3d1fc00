"""A process that materializes one shard repeatedly, and waits before each commit for the test.

Each round reads a line, writes "ready to commit", reads a line, commits, and writes event metadata as JSON.
"""

import json
import sys

import dagster as dg

from kinesis_assets.dagster.in_process import StreamProject
from kinesis_assets.ingest import run

arguments = json.loads(sys.argv[1])
project = StreamProject.from_settings(**arguments["project"])
instance = dg.DagsterInstance.ephemeral()
commit = run.commit


def write(line: str) -> None:
    """Write a line for the test."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def wait_and_commit(*positional: object, **named: object) -> object:
    """Commit as soon as the test lets it."""
    write("ready to commit")
    sys.stdin.readline()
    return commit(*positional, **named)


run.commit = wait_and_commit
write("started")
while sys.stdin.readline():
    write(json.dumps(list(project.materialize(instance, [arguments["shard"]]))))
