"""The check for a Java that Spark can run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from kinesis_assets.errors import JavaUnavailable

_MIN_VERSION = 17
"""Spark 4 needs Java 17 or newer, and Spark 3.5 runs on it (Spark documentation, overview)."""

_SECONDS = 300.0
"""Time limit for Java to print its version."""


def java_command() -> str:
    """Return the Java command that Spark uses: that of JAVA_HOME, or the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def require_java() -> None:
    """Check that Java is installed, before Spark is started.

    Raises:
        JavaUnavailable: Java is not installed, or is too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = java_command()
    if shutil.which(java) is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java on the PATH"
        raise JavaUnavailable(
            f"Spark needs Java {_MIN_VERSION} or newer: {where}; install a JDK or set JAVA_HOME"
        )
    command = [java, "-version"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise JavaUnavailable(
            f"Spark needs Java {_MIN_VERSION} or newer: {java} printed no version in {_SECONDS:.0f} s; "
            "run `java -version`, or set JAVA_HOME"
        ) from None
    version = re.search(r'version "(?:1\.)?(\d+)', result.stderr + result.stdout)
    if version is None or int(version[1]) < _MIN_VERSION:
        found = f"Java {version[1]}" if version else "no usable Java"
        raise JavaUnavailable(
            f"Spark needs Java {_MIN_VERSION} or newer: found {found} at {java}; set JAVA_HOME"
        )
