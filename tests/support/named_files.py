"""A file system whose methods a fault point can replace."""

from __future__ import annotations

from typing import Any


class NamedFiles:
    """Delegates to an Arrow file system, whose own methods are read-only."""

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    def __getattr__(self, name: str) -> Any:
        return getattr(self._filesystem, name)

    def delete_file(self, path: str) -> None:
        self._filesystem.delete_file(path)
