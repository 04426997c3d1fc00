"""A process that materializes shards repeatedly, and waits before each commit for the test: see `racer.py`.

Each round reads the project and the shards as JSON, writes "ready to commit", reads a line, commits, and
writes the event metadata as JSON, or the error of the run.
"""

import json
import sys

import dagster as dg

from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.errors import KinesisAssetsError
from kinesis_assets.ingest import run

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
instance = dg.DagsterInstance.ephemeral()
write("started")
while line := sys.stdin.readline():
    arguments = json.loads(line)
    project = StreamProject.from_settings(**arguments["project"])
    try:
        write(json.dumps(list(project.materialize(instance, arguments["shards"]))))
    except KinesisAssetsError as error:
        write(json.dumps(f"{type(error).__name__}: {error}"))
