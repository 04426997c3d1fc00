"""A cache of the immutable files of one table."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

MAX_BYTES = 64 << 20
"""Default size of a cache: approximate bytes of memory."""


class FileCache:
    """The decoded content of files that never change. It evicts the least recently used, and is thread-safe.

    Args:
        max_bytes: Maximum bytes of memory.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._files: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: str) -> Any:
        """Return the content of a file; None if it is not in the cache."""
        with self._lock:
            found = self._files.get(path)
            if found is None:
                return None
            self._files.move_to_end(path)
            return found[0]

    def put(self, path: str, value: Any, size: int) -> None:
        """Add the content of a file.

        Args:
            path: The file's path.
            value: The decoded content, which must be immutable.
            size: Bytes of memory that it occupies.
        """
        with self._lock:
            self._bytes += size - self._files.pop(path, (None, 0))[1]
            self._files[path] = (value, size)
            while self._bytes > self._max_bytes:
                _, (_, freed) = self._files.popitem(last=False)
                self._bytes -= freed
