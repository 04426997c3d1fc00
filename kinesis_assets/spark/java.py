"""Whether there is a Java that Spark can run on, told in one line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from kinesis_assets.errors import JavaUnavailable

OLDEST = 17
"""Spark 4 needs Java 17 or newer (Spark documentation, overview)."""


def java_command() -> str:
    """The Java that Spark takes: that of JAVA_HOME, or the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def require_java() -> None:
    """See that Java is there before Spark is asked for.

    Raises:
        JavaUnavailable: There is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = java_command()
    if shutil.which(java) is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java on the PATH"
        raise JavaUnavailable(f"Spark needs Java {OLDEST} or newer: {where}; install a JDK or set JAVA_HOME")
    command = [java, "-version"]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    version = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    if version is None or int(version[1]) < OLDEST:
        found = f"Java {version[1]}" if version else "no usable Java"
        raise JavaUnavailable(f"Spark needs Java {OLDEST} or newer: found {found} at {java}; set JAVA_HOME")
