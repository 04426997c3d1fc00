"""A table's files through Python, so that deleting one of them can be a fault point."""

from __future__ import annotations

from typing import Any


class NamedFiles:
    """A file system of Arrow; its own methods cannot be wrapped."""

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    def __getattr__(self, name: str) -> Any:
        return getattr(self._filesystem, name)

    def delete_file(self, path: str) -> None:
        self._filesystem.delete_file(path)
