"""What a probe runs on an executor. It imports Python's own modules only, because others may be missing."""

from __future__ import annotations

import json
import pickle
import socket
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def examine(modules: Sequence[str], check: bytes) -> str:
    """Import modules, and call a function.

    Args:
        check: The pickled function, which returns what is wrong, if anything. It is called if there is no
            error in the modules.

    Returns:
        A JSON object: `host`, the `python` interpreter, `time` in seconds since the epoch, `missing`, what
        could not be imported, and `error`, what the function returned, both null if there is nothing.
    """
    missing = error = None
    try:
        for module in modules:
            import_module(module)
    except ImportError as caught:
        missing = str(caught)
    else:
        error = pickle.loads(check)()  # noqa: S301  # as Spark does with the function of each task
    facts = {
        "host": socket.gethostname(),
        "python": f"{sys.executable} {sys.version.partition(' ')[0]}",
        "time": time.time(),
        "missing": missing,
        "error": error,
    }
    return json.dumps(facts)
