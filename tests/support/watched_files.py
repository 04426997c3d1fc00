"""The files of a table's folder, with a callback whenever one is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class WatchedFiles:
    """Calls a function before each file is opened.

    Args:
        files: The files of the folder.
        opening: Called with the path.
    """

    def __init__(self, files: Any, opening: Callable[[str], object]) -> None:
        self._files = files
        self._opening = opening

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def open_input_file(self, path: str) -> Any:
        self._opening(path)
        return self._files.open_input_file(path)

    def open_output_stream(self, path: str, **options: Any) -> Any:
        self._opening(path)
        return self._files.open_output_stream(path, **options)
