"""A derivation in a process that kills itself around its commit: arguments WHEN KIND SOURCE TABLE."""

import os
import signal
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from contract.derivations import KINDS
from kinesis_assets.derive.derived_table import DerivedSnapshot, DerivedTable
from kinesis_assets.derive.run import derive
from kinesis_assets.spark.session import start_session
from support.pipeline import session_config

when, kind, source, table = sys.argv[1:]
original_commit = DerivedSnapshot.commit


def commit_and_die(self: DerivedSnapshot, *arguments: object, **named: object) -> None:
    """Kill the process before or after the commit."""
    if when == "after":
        original_commit(self, *arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)


DerivedSnapshot.commit = commit_and_die
list(derive(start_session(session_config()), DerivedTable(table), KINDS[kind].derivation(source)))
