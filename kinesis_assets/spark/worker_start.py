"""Recognizes why no Python worker started on an executor.

Spark reports it only in the text of its errors.
"""

from __future__ import annotations

import re
import sys

# The first group is the version of the executor. PySpark 3.5 gives it as a tuple.
_OTHER_VERSION = re.compile(r"Python in worker has different version:? (.+?) than that in driver")
# What the JVM reports, or the last line that the interpreter has printed.
_NOT_STARTED = re.compile(
    r"Cannot run program ([^\n]+)|Error from python worker:.*?([^\n]*\S)\s*PYTHONPATH was", re.DOTALL
)
_HOST = re.compile(r"\(TID \d+\) \((\S+) executor ")


def start_failure(text: str) -> str | None:
    """Return why no worker started, where, and what to do; None if that is not the reason of an error.

    Args:
        text: The text of an error of Spark.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if other := _OTHER_VERSION.search(text):
        reason = f"Python is {other[1]}, and {version} on this machine, but Spark requires the same version"
    elif failed := _NOT_STARTED.search(text):
        reason = f"the Python interpreter does not start: {(failed[1] or failed[2]).strip()}"
    else:
        return None
    host = _HOST.search(text)
    return (
        f"on an executor{f' ({host[1]})' if host else ''}: {reason}. Set python_executable to an interpreter "
        f"of Python {version} on the executors, or python_environment to an archive for that version, which "
        f"uses python{version} on their PATH"
    )
