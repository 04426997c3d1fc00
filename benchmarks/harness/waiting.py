"""Wait for a condition, with a limit that no slow machine reaches."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

Found = TypeVar("Found")

SECONDS = 600.0
"""How long to wait for anything that has to happen."""


def wait_until(
    condition: Callable[[], Found],
    process: subprocess.Popen[Any] | None = None,
    *,
    failure: object = "",
    interval: float = 0.1,
) -> Found:
    """Wait until a condition is true, and return its value.

    Args:
        process: A process that must not end meanwhile.
        failure: What to print if the condition does not become true; of a file, its content.
        interval: Seconds between two checks. After a slow check they are more, since most of the time is for
            what is waited for.
    """
    started = time.monotonic()
    deadline = started + SECONDS
    while not (found := condition()):
        checked = time.monotonic()
        assert process is None or process.poll() is None, _message(failure) or process.communicate()
        assert checked < deadline, _message(failure)
        time.sleep(max(interval, 3 * (checked - started)))
        started = time.monotonic()
    return found


def wait_for_next_second() -> None:
    """Wait until the clock shows another second. Kinesis rounds the time of LATEST down to one."""
    now = int(time.time())
    wait_until(lambda: int(time.time()) > now, interval=0.01)


def _message(failure: object) -> object:
    return failure.read_text() if isinstance(failure, Path) else failure
