"""Ctrl-C: a command ends within seconds, and prints nothing after it.

This module imports only the standard library, so that the handler is installed as early as possible.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

INTERRUPTED = 130
"""The exit code that shells use."""

_SECONDS_TO_END = 2.0


def quiet_interrupts() -> None:
    """Install a handler that raises KeyboardInterrupt and silences the errors of interrupted finalizers.

    If the shell has set interrupts to be ignored, they remain ignored.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    # The finalizer of an object that was not fully constructed may raise.
    sys.unraisablehook = lambda _: None
    raise KeyboardInterrupt


def leave(code: int, *, interrupted: bool) -> NoReturn:
    """Exit the process.

    Args:
        code: The exit code.
        interrupted: Whether the command was interrupted. If Spark is still starting, it is then terminated
            instead of waited for.
    """
    session = sys.modules.get("kinesis_assets.spark.session")
    if interrupted and session is not None and session.is_starting():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _end_children()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def _end_children() -> None:
    """Terminate the descendants of this process, if the system has /proc."""
    # On other systems Spark's JVM ends when its standard input is closed.
    parents = dict(_parents())
    below = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    children = [pid for pid in below if parents.get(pid) == os.getpid()]
    waits = [threading.Thread(target=_wait, args=(pid,), daemon=True) for pid in children]
    for pid in below - {os.getpid()}:
        with suppress(OSError):
            os.kill(pid, signal.SIGTERM)
    for pid, waiting in zip(children, waits, strict=True):
        waiting.start()
        waiting.join(_SECONDS_TO_END)
        if waiting.is_alive():
            os.kill(pid, signal.SIGKILL)


def _parents() -> Iterator[tuple[int, int]]:
    """Yield the id of each process and the id of its parent."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            _, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
            yield int(process.name), int(parent)


def _wait(pid: int) -> None:
    with suppress(OSError):
        os.waitpid(pid, 0)
