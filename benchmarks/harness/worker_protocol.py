"""The protocol between the benchmarks and a process that they measure, on the side of that process.

The process writes that it is ready once everything is imported and started. For each request that it is
given, it writes that it has prepared the work, waits for "go", and writes its result. Only the time from "go"
to the result counts. This module imports nothing but the standard library, because peers run it in their own
environments.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO


@dataclass(frozen=True)
class ReadRequest:
    """A request to read a stream.

    Attributes:
        url: The endpoint.
        stream: The stream, to be read from TRIM_HORIZON.
        records: Records in the stream; a reader without a notion of an end stops when it has read them all.
        folder: An empty folder for the output.
    """

    url: str
    stream: str
    records: int
    folder: str


@dataclass(frozen=True)
class ReadResult:
    """What a reader has read: records, and the bytes of their payloads."""

    records: int
    bytes: int


def private_stdout() -> TextIO:
    """Reserve standard output for replies, and send everything else that is printed to standard error.

    Call it before starting anything that inherits standard output.
    """
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return replies


def serve_requests(
    prepare: Callable[[ReadRequest], Callable[[], ReadResult]], replies: TextIO | None = None
) -> None:
    """Serve requests from standard input until it is closed.

    Args:
        prepare: Prepares a request, and returns the function that does the work.
        replies: The file that `private_stdout` returned, if it was called before.
    """
    with replies or private_stdout() as output:
        _write(output, "ready")
        for line in sys.stdin:
            work = prepare(ReadRequest(**json.loads(line)))
            _write(output, "prepared")
            sys.stdin.readline()
            _write(output, asdict(work()))


def _write(output: TextIO, message: object) -> None:
    output.write(json.dumps(message) + "\n")
    output.flush()
