"""File systems that pass each operation on to another one, which they choose when it begins."""

# ruff: noqa: D102  # the methods are those of pyarrow

from __future__ import annotations

from abc import abstractmethod
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow.fs

if TYPE_CHECKING:
    import pyarrow as pa

_OWN_FOLDER = "_kinesis"
"""The folder of what this package keeps beside the rows of a table."""


class Forwarding(pyarrow.fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """Passes each operation on. Files that are open keep the file system with which they were opened."""

    @abstractmethod
    def at(self, path: str) -> pyarrow.fs.FileSystem:
        """Return the file system of a path, or raise OSError."""

    def get_type_name(self) -> str:
        return "forwarding"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pyarrow.fs.FileInfo]:
        # Those that follow each other in one place are asked for at once.
        return [info for files, some in groupby(paths, self.at) for info in files.get_file_info(list(some))]

    def get_file_info_selector(self, selector: pyarrow.fs.FileSelector) -> list[pyarrow.fs.FileInfo]:
        found: list[pyarrow.fs.FileInfo] = self.at(selector.base_dir).get_file_info(selector)
        return found

    def create_dir(self, path: str, recursive: bool) -> None:
        self.at(path).create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        self.at(path).delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self.at(path).delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError("all files are never deleted")

    def delete_file(self, path: str) -> None:
        self.at(path).delete_file(path)

    def move(self, src: str, dest: str) -> None:
        self.at(src).move(src, dest)

    def copy_file(self, src: str, dest: str) -> None:
        self.at(src).copy_file(src, dest)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self.at(path).open_input_stream(path, compression=None)

    def open_input_file(self, path: str) -> pa.NativeFile:
        return self.at(path).open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        del metadata  # the package writes none
        return self.at(path).open_output_stream(path, compression=None)

    def open_append_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        raise NotImplementedError("objects cannot be appended to")


class _TwoPlaces(Forwarding):
    def __init__(self, folder: pyarrow.fs.FileSystem, rows: pyarrow.fs.FileSystem) -> None:
        self._folder = folder
        self._rows = rows

    def at(self, path: str) -> pyarrow.fs.FileSystem:
        return self._folder if path.partition("/")[0] == _OWN_FOLDER else self._rows


def in_two_places(folder: pyarrow.fs.FileSystem, rows: pyarrow.fs.FileSystem) -> pyarrow.fs.SubTreeFileSystem:
    """Return a file system with the folder `_kinesis` of one, and all other paths of another one."""
    return pyarrow.fs.SubTreeFileSystem("", pyarrow.fs.PyFileSystem(_TwoPlaces(folder, rows)))
