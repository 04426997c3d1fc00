"""The two ends of a measured process' conversation: marks between which its CPU counts.

The process says that it is ready once all is imported and started; then, for each order it is given, that it
has prepared it, and what came of it. Only the time from "go" to the result is the work's. Nothing beside the
standard library is imported here: peers run it in environments of their own.
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
class Order:
    """What is to be read, and where to.

    Attributes:
        url: The endpoint.
        stream: Its stream, to be read from TRIM_HORIZON.
        records: Records of it; a reader that knows no end stops when it has them all.
        folder: An empty folder for what is written.
    """

    url: str
    stream: str
    records: int
    folder: str


@dataclass(frozen=True)
class Read:
    """What a reader has read: records, and bytes of their payloads."""

    records: int
    bytes: int


def private_stdout() -> TextIO:
    """This process' standard output for the marks alone; whatever else is printed goes to standard error.

    To be called before anything is started that inherits it.
    """
    marks = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return marks


def take_orders(prepare: Callable[[Order], Callable[[], Read]], marks: TextIO | None = None) -> None:
    """Say that this process is ready, and do what is ordered, until there is no more.

    Args:
        prepare: Gets ready for an order; what it returns does the work.
        marks: What `private_stdout` gave, if it was called before.
    """
    with marks or private_stdout() as to:
        _tell(to, "ready")
        for line in sys.stdin:
            work = prepare(Order(**json.loads(line)))
            _tell(to, "prepared")
            sys.stdin.readline()
            _tell(to, asdict(work()))


def _tell(marks: TextIO, what: object) -> None:
    marks.write(json.dumps(what) + "\n")
    marks.flush()
