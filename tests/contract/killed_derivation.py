"""A derivation in a process that kills itself around its commit: arguments WHEN KIND SOURCE TABLE."""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from contract.derivations import KINDS
from kinesis_assets.derive.derived_table import DerivedSnapshot
from kinesis_assets.derive.run import derive
from kinesis_assets.spark.session import start_session
from support.formats import derived_at, raw_table, source_format
from support.pipeline import session_config

when, kind, source, table = sys.argv[1:]
original_commit = DerivedSnapshot.commit


def commit_and_die(self: DerivedSnapshot, *arguments: object, **named: object) -> None:
    """Kill the process before or after the commit."""
    if when == "after":
        original_commit(self, *arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)


DerivedSnapshot.commit = commit_and_die
derivation = replace(KINDS[kind].derivation(source), source_format=source_format(raw_table(source)))
list(derive(start_session(session_config()), derived_at(table), derivation))
