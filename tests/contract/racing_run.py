"""A process that materializes one shard again and again, and waits before each commit.

Reads a line to begin a round, writes `landed`, reads a line to commit, writes the shard's facts as JSON.
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


def tell(line: str) -> None:
    """Write a line for the test."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def waiting(*positional: object, **named: object) -> object:
    """The commit, once the test says so."""
    tell("landed")
    sys.stdin.readline()
    return commit(*positional, **named)


run.commit = waiting
tell("ready")
while sys.stdin.readline():
    tell(json.dumps(list(project.materialize(instance, [arguments["shard"]]))))
