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

_SECONDS_TO_SEND_AGAIN = 0.05

_interrupted = threading.Event()


def quiet_interrupts() -> None:
    """Install a handler that raises KeyboardInterrupt, and make sure that no interrupt is lost.

    Python discards an exception that is raised while a finalizer or a weak reference's callback runs. An
    interrupt that is discarded is sent again.

    If the shell has set interrupts to be ignored, they remain ignored.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
        sys.unraisablehook = _send_again


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    _interrupted.set()
    # A library in which the interrupt is raised may log its traceback. The module may be half imported.
    if disable := getattr(sys.modules.get("logging"), "disable", None):
        disable()
    raise KeyboardInterrupt


def _send_again(discarded: sys.UnraisableHookArgs) -> None:
    """Handle an exception that Python discards."""
    # Dagster raises an exception of its own for an interrupt. It is no subclass of Exception either.
    if not issubclass(discarded.exc_type, (Exception, GeneratorExit, SystemExit)):
        main = threading.main_thread().ident or 0
        again = threading.Timer(_SECONDS_TO_SEND_AGAIN, signal.pthread_kill, (main, signal.SIGINT))
        again.daemon = True
        again.start()
    elif not _interrupted.is_set():  # afterwards, finalizers of half-constructed objects may raise
        sys.__unraisablehook__(discarded)


def leave(code: int) -> NoReturn:
    """Exit the process. If Spark is still starting, it is terminated instead of waited for."""
    session = sys.modules.get("kinesis_assets.spark.session")
    if session is not None and session.is_starting():
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
            _, parent = (process / "stat").read_bytes().rpartition(b")")[2].split()[:2]
            yield int(process.name), int(parent)


def _wait(pid: int) -> None:
    with suppress(OSError):
        os.waitpid(pid, 0)
