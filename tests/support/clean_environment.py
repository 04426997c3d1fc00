"""Commands of an environment in which this repository is not importable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_OURS = ("AWS_", "DAGSTER_", "PYSPARK_", "PYTHON", "SPARK_", "VIRTUAL_ENV")
"""Prefixes of the variables by which a command, or a task of Spark, would use this repository."""


def clean_environment() -> dict[str, str]:
    """Return the variables of this process without those that belong to the tests.

    The programs beside this interpreter are not on the PATH.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return inherited | {"PATH": path_of_others()}


def path_of_others() -> str:
    """Return the PATH without the folder of this interpreter."""
    ours, folders = Path(sys.executable).parent, os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if folder and Path(folder) != ours)


def run(*command: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """Run a command and return what it prints on standard output."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=clean_environment() | dict(env or {}),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
