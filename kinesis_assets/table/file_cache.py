"""Immutable files of one table that this process has read, as far as they fit."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

MOST_BYTES = 64 << 20
"""Of memory, about."""


class FileCache:
    """What was read of files that never change; the least recently used go first. For several threads.

    Args:
        most_bytes: Of memory.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._files: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: str) -> Any:
        """What was read of a file; None if that is not here."""
        with self._lock:
            found = self._files.get(path)
            if found is None:
                return None
            self._files.move_to_end(path)
            return found[0]

    def put(self, path: str, value: Any, size: int) -> None:
        """Keep what was read of a file.

        Args:
            path: Of the file.
            value: What was read; it must be immutable.
            size: Bytes of memory that it takes.
        """
        with self._lock:
            self._bytes += size - self._files.pop(path, (None, 0))[1]
            self._files[path] = (value, size)
            while self._bytes > self._most_bytes:
                _, (_, freed) = self._files.popitem(last=False)
                self._bytes -= freed
