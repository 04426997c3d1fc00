"""Commands of an environment in which this repository is not importable."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_OURS = ("AWS_", "DAGSTER_", "PYSPARK_", "PYTHON", "SPARK_", "VIRTUAL_ENV")
"""Prefixes of the variables by which a command, or a task of Spark, would use this repository."""


def clean_environment() -> dict[str, str]:
    """Return the variables of this process without those that belong to the tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}


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
