"""Java programs that tests run."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from support.skipping import give_up

if TYPE_CHECKING:
    from pathlib import Path


def fetch(what: str, goal: str, *options: str) -> None:
    """Let Maven download something, with its own settings, by a goal of its plugin for dependencies."""
    if shutil.which("mvn") is None:
        give_up("mvn is not installed")
    plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
    command = ["mvn", "-q", "-B", f"{plugin}:{goal}", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        give_up(f"Maven cannot fetch {what}: {(done.stdout or done.stderr)[-1000:]}")


def class_path(project: Path, folder: Path) -> str:
    """Return the class path of the dependencies in a project's pom.xml, which are downloaded on first use.

    Args:
        folder: A folder for a file.
    """
    pom, listed = project / "pom.xml", folder / "libraries"
    options = ["-f", str(pom), f"-Dmdep.outputFile={listed}"]
    fetch(f"the libraries of {project.name}", "build-classpath", *options)
    return listed.read_text()


def compiled(source: Path, libraries: str, folder: Path) -> str:
    """Compile a source file into a folder, and return the class path of the program."""
    if shutil.which("javac") is None:
        give_up("javac is not installed")
    java = ["javac", "-nowarn", "-cp", libraries, "-d", str(folder), str(source)]
    done = subprocess.run(java, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return f"{libraries}:{folder}"
