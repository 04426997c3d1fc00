"""Ctrl-C at any moment of a command: it ends within seconds, and nothing is printed after it.

Imports nothing but the standard library, so that the handler is there from the first moments on.
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
"""Exit code, as of a shell."""

_SECONDS_TO_END = 2.0


def quiet_interrupts() -> None:
    """Let an interrupt raise KeyboardInterrupt and nothing be printed of what it meets on its way.

    Where the shell had interrupts ignored, they stay so.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    # An object that was half made when the interrupt came may raise at its end.
    sys.unraisablehook = lambda _: None
    raise KeyboardInterrupt


def leave(code: int, *, interrupted: bool) -> NoReturn:
    """End this process.

    Args:
        code: Its exit code.
        interrupted: A Spark that is still starting is ended with it, instead of waited for. Nothing of the
            command is under way any more.
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
    """End the processes below this one, where the system lists them."""
    # Elsewhere Spark's Java ends when it finds that its standard input is closed.
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
    """Each process and the one that started it."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            _, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
            yield int(process.name), int(parent)


def _wait(pid: int) -> None:
    with suppress(OSError):
        os.waitpid(pid, 0)
