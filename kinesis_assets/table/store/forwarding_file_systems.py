"""File systems that pass each operation on to another one, which they choose when it begins.

One has a part of a folder elsewhere. The other accesses a bucket with the credentials of an assumed role:
Arrow and delta-rs get credentials that expire, so its file system is replaced when they are refreshed. A file
keeps those with which it was opened, and so does a table that delta-rs has opened.
"""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from functools import lru_cache
from io import UnsupportedOperation
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow.fs

from kinesis_assets.errors import RoleNotAssumed

if TYPE_CHECKING:
    import pyarrow as pa

    from kinesis_assets.kinesis.role import AssumedRole

_OWN_FOLDER = "_kinesis"
"""The folder of what this package keeps beside the rows of a table."""


class _Forwarding(pyarrow.fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """Passes each operation of pyarrow on. Open files keep the file system with which they were opened."""

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
        raise UnsupportedOperation("all files are never deleted")

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
        del path, metadata
        raise UnsupportedOperation("objects cannot be appended to")


class _TwoPlaces(_Forwarding):
    def __init__(self, folder: pyarrow.fs.FileSystem, rows: pyarrow.fs.FileSystem) -> None:
        self._folder = folder
        self._rows = rows

    def at(self, path: str) -> pyarrow.fs.FileSystem:
        return self._folder if path.partition("/")[0] == _OWN_FOLDER else self._rows


def in_two_places(folder: pyarrow.fs.FileSystem, rows: pyarrow.fs.FileSystem) -> pyarrow.fs.SubTreeFileSystem:
    """Return a file system with the folder `_kinesis` of one, and all other paths of another one."""
    return pyarrow.fs.SubTreeFileSystem("", pyarrow.fs.PyFileSystem(_TwoPlaces(folder, rows)))


@lru_cache(maxsize=256)
def store_of(role: AssumedRole, bucket: str, region: str | None = None) -> pyarrow.fs.FileSystem:
    """Return a file system with the objects of a bucket, which this process keeps.

    Args:
        region: The region of the bucket; None to ask S3 for it.

    Raises:
        OSError: The bucket's region cannot be determined.
    """
    return pyarrow.fs.PyFileSystem(_Store(role, bucket, region))


def options_of(role: AssumedRole) -> dict[str, str]:
    """Return the options of delta-rs with the credentials that a role has now.

    Raises:
        RoleNotAssumed: The role cannot be assumed.
    """
    credentials = _current(role)
    return {
        "AWS_ACCESS_KEY_ID": credentials.access_key,
        "AWS_SECRET_ACCESS_KEY": credentials.secret_key,
        "AWS_SESSION_TOKEN": credentials.token,
    }


class _Store(_Forwarding):
    """Passes each operation on to a file system with the credentials that the role has then.

    If the role cannot be assumed, operations raise OSError, as if the store could not be reached.
    """

    def __init__(self, role: AssumedRole, bucket: str, region: str | None) -> None:
        self._role = role
        # As Arrow does for a URI.
        self._endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        self._region = region
        if region is None and not self._endpoint:
            self._region = pyarrow.fs.resolve_s3_region(bucket)
        self._lock = threading.Lock()
        self._credentials: Any = None
        self._opened: pyarrow.fs.S3FileSystem | None = None

    def at(self, path: str) -> pyarrow.fs.FileSystem:
        del path
        try:
            credentials = _current(self._role)
        except RoleNotAssumed as error:
            raise OSError(error.reason) from None
        with self._lock:
            if self._opened is None or credentials != self._credentials:
                self._opened = pyarrow.fs.S3FileSystem(
                    access_key=credentials.access_key,
                    secret_key=credentials.secret_key,
                    session_token=credentials.token,
                    region=self._region,
                    endpoint_override=self._endpoint,
                    allow_delayed_open=True,  # as in `TableFolder.open`
                )
                self._credentials = credentials
            return self._opened


def _current(role: AssumedRole) -> Any:
    """Return the credentials that a role has now. Raises `RoleNotAssumed`."""
    from kinesis_assets.kinesis.role_credentials import credentials_of  # noqa: PLC0415  # loads botocore

    return credentials_of(role).current()
