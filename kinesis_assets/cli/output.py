"""Standard output that may be closed or full: what cannot be printed is an error of one line."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

from kinesis_assets.errors import KinesisAssetsError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STDOUT, _STDERR = 1, 2


class OutputFailed(KinesisAssetsError):
    """Standard output does not take what a command prints. What the command did is done."""


class _Output(io.RawIOBase):
    """The file descriptor of standard output."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return os.isatty(_STDOUT)

    def fileno(self) -> int:
        return _STDOUT

    def write(self, content: ReadableBuffer, /) -> int:
        try:
            return os.write(_STDOUT, content)
        except OSError as error:
            # What is left in buffers would fail again, when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)
            reason = os.strerror(error.errno or 0)
            raise OutputFailed(
                f"standard output: {reason}. The command did its work, but its result could not be printed"
            ) from None


def guard_output() -> None:
    """Have whatever is printed from here on raise `OutputFailed` where standard output does not take it.

    A descriptor that was closed is opened for reading, so that it refuses to be written to: else the next
    file that is opened would get its number, and what a child process prints would be written into it.
    """
    while (number := os.open(os.devnull, os.O_RDONLY)) <= _STDERR:
        os.set_inheritable(number, True)
    os.close(number)
    if sys.stdout is sys.__stdout__:
        buffer = io.BufferedWriter(_Output())
        if sys.stdout is None:
            sys.stdout = io.TextIOWrapper(buffer, "utf-8")
            return
        before = sys.stdout
        by_line = before.line_buffering or before.write_through  # of a terminal, or PYTHONUNBUFFERED
        sys.stdout = io.TextIOWrapper(buffer, before.encoding, before.errors, line_buffering=by_line)
