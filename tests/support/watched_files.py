"""A table's folder that reports which of its files are opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class WatchedFiles:
    """A folder's files; something is done before each is opened.

    Args:
        files: The folder.
        opening: Called with the path.
    """

    def __init__(self, files: Any, opening: Callable[[str], object]) -> None:
        self._files = files
        self._opening = opening

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def open_input_file(self, path: str) -> Any:
        """As the folder's."""
        self._opening(path)
        return self._files.open_input_file(path)

    def open_output_stream(self, path: str, **options: Any) -> Any:
        """As the folder's."""
        self._opening(path)
        return self._files.open_output_stream(path, **options)
