"""What a Spark session needs from the process that starts it."""

from __future__ import annotations

import os
import sys


def use_this_python() -> None:
    """Let Spark's workers here run the interpreter that has this package, unless told otherwise."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
