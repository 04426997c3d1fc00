"""Java programs that tests run."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from support.skipping import give_up

if TYPE_CHECKING:
    from pathlib import Path


def class_path(project: Path, folder: Path) -> str:
    """Return the class path of the dependencies in a project's pom.xml.

    Maven downloads them on first use, with its own settings.

    Args:
        folder: An empty folder for a file.
    """
    if shutil.which("mvn") is None:
        give_up("mvn is not installed")
    listed = folder / "libraries"
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
    maven = ["mvn", "-q", "-B", "-f", str(project / "pom.xml"), goal, f"-Dmdep.outputFile={listed}"]
    done = subprocess.run(maven, capture_output=True, text=True, check=False)
    if done.returncode:
        give_up(f"Maven cannot fetch the libraries of {project.name}: {done.stdout[-1000:]}")
    return listed.read_text()


def compiled(source: Path, libraries: str, folder: Path) -> str:
    """Compile a source file into a folder, and return the class path of the program."""
    if shutil.which("javac") is None:
        give_up("javac is not installed")
    java = ["javac", "-nowarn", "-cp", libraries, "-d", str(folder), str(source)]
    done = subprocess.run(java, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return f"{libraries}:{folder}"
