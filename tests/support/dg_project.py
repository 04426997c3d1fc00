"""A Dagster project in a folder, and the command `dg` in it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.waiting import SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROJECT = """\
[project]
name = "lake"
version = "1"
[tool.dg]
directory_type = "project"
[tool.dg.project]
root_module = "lake"
"""
_DEFINITIONS = """\
from pathlib import Path

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
"""


@dataclass(frozen=True)
class DgProject:
    """A project whose package is `lake`.

    Attributes:
        root: The folder of the project.
        env: The environment of its commands.
    """

    root: Path
    env: Mapping[str, str]

    @classmethod
    def create(cls, root: Path, env: Mapping[str, str]) -> DgProject:
        """Create an empty project."""
        package = root / "lake"
        (package / "defs").mkdir(parents=True)
        (root / "pyproject.toml").write_text(_PROJECT)
        (package / "__init__.py").touch()
        (package / "definitions.py").write_text(_DEFINITIONS)
        return cls(root, env)

    @property
    def defs(self) -> Path:
        """The folder of the definitions."""
        return self.root / "lake" / "defs"

    def dg(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `dg`; standard error is part of the output."""
        command = [str(Path(sys.executable).with_name("dg")), *arguments]
        return subprocess.run(
            command,
            cwd=self.root,
            env=dict(self.env),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def checked(self, *arguments: str) -> str:
        """Run `dg`, which must succeed, and return its output."""
        done = self.dg(*arguments)
        assert done.returncode == 0, done.stdout
        return done.stdout
