"""Calls to which the service responds once a condition is true."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from benchmarks.harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kinesis_assets.testing import Faults


@contextmanager
def released_after(faults: Faults, condition: Callable[[], bool]) -> Iterator[None]:
    """Clear the faults in another thread once a condition is true. Stalled calls then get a response."""

    def release() -> None:
        wait_until(condition)
        faults.clear()

    thread = threading.Thread(target=release)
    thread.start()
    yield
    thread.join()
