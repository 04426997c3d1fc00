"""Commands that pause at a chosen point, so that they can be interrupted there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.waiting import SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

_AT_IMPORT = """
import sys, time
from pathlib import Path

class Pause:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            {pause}

class Finalized:
    def __del__(self):
        pause()

def pause():
    Path({reached!r}).touch()
    time.sleep(600)

sys.meta_path.insert(0, Pause())
"""
_JAVA = """#!/bin/sh
case "$*" in
    *org.apache.spark.launcher.Main* | -version) exec {java} "$@" ;;
esac
echo $$ > {reached}.new && mv {reached}.new {reached}
echo "output of Java" >&2
exec sleep 600
"""


@dataclass(frozen=True)
class PausePoint:
    """A point at which a command pauses.

    Attributes:
        environment: The variables that make the command pause.
        reached: A file that exists once it has paused.
    """

    environment: Mapping[str, str]
    reached: Path

    @classmethod
    def of_import(cls, folder: Path, module: str) -> PausePoint:
        """Pause when a module is imported."""
        return cls._of_import(folder, module, "pause()")

    @classmethod
    def of_finalizer(cls, folder: Path, module: str) -> PausePoint:
        """Pause in a finalizer that runs when a module is imported: Python discards its exceptions."""
        return cls._of_import(folder, module, "Finalized()")

    @classmethod
    def _of_import(cls, folder: Path, module: str, pause: str) -> PausePoint:
        reached = folder / "reached"
        source = _AT_IMPORT.format(module=module, reached=str(reached), pause=pause)
        (folder / "sitecustomize.py").write_text(source)
        return cls({"PYTHONPATH": str(folder)}, reached)

    @classmethod
    def of_spark(cls, folder: Path) -> PausePoint:
        """Pause while Spark's Java starts. The file contains its process id."""
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home, "bin", "java")) if home else shutil.which("java")
        reached = folder / "reached"
        fake = folder / "java" / "bin" / "java"
        fake.parent.mkdir(parents=True)
        fake.write_text(_JAVA.format(java=java, reached=reached))
        fake.chmod(0o755)
        return cls({"JAVA_HOME": str(folder / "java")}, reached)

    def interrupt(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command and interrupt all its processes at this point, as Ctrl-C in a terminal does."""
        with subprocess.Popen(
            [Path(sys.prefix, "bin", "kinesis-assets"), *arguments],
            env={**os.environ, **self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                wait_until(self.reached.exists, process)
                os.killpg(process.pid, signal.SIGINT)
                out, err = process.communicate(timeout=SECONDS)
            finally:
                _kill_all(process)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _kill_all(process: subprocess.Popen[str]) -> None:
    """Kill the processes that a command has left; their group is the one of its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
