"""The store of a table in a bucket, accessed with the credentials of an assumed role.

Arrow and delta-rs get credentials that expire. Arrow's file system is replaced when they are refreshed. A
file keeps those with which it was opened, and so does a table that delta-rs has opened.
"""

from __future__ import annotations

import os
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow.fs

from kinesis_assets.errors import RoleNotAssumed
from kinesis_assets.kinesis.role_credentials import credentials_of

if TYPE_CHECKING:
    import pyarrow as pa

    from kinesis_assets.kinesis.role import AssumedRole


@lru_cache(maxsize=256)
def store_of(role: AssumedRole, bucket: str) -> pyarrow.fs.FileSystem:
    """Return a file system with the objects of a bucket, which this process keeps.

    Args:
        bucket: The bucket, which determines the region.

    Raises:
        OSError: The bucket's region cannot be determined.
    """
    return pyarrow.fs.PyFileSystem(_Store(role, bucket))


def options_of(role: AssumedRole) -> dict[str, str]:
    """Return the options of delta-rs with the credentials that a role has now.

    Raises:
        RoleNotAssumed: The role cannot be assumed.
    """
    credentials = credentials_of(role).current()
    return {
        "AWS_ACCESS_KEY_ID": credentials.access_key,
        "AWS_SECRET_ACCESS_KEY": credentials.secret_key,
        "AWS_SESSION_TOKEN": credentials.token,
    }


class _Store(pyarrow.fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """Passes each operation on to a file system with the credentials that the role has then.

    If the role cannot be assumed, operations raise OSError, as if the store could not be reached.
    """

    def __init__(self, role: AssumedRole, bucket: str) -> None:
        self._role = role
        # As Arrow does for a URI.
        self._endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        self._region = None if self._endpoint else pyarrow.fs.resolve_s3_region(bucket)
        self._lock = threading.Lock()
        self._credentials: Any = None
        self._opened: pyarrow.fs.S3FileSystem | None = None

    @property
    def _store(self) -> pyarrow.fs.S3FileSystem:
        try:
            credentials = credentials_of(self._role).current()
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

    def get_type_name(self) -> str:
        return "s3"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pyarrow.fs.FileInfo]:
        found: list[pyarrow.fs.FileInfo] = self._store.get_file_info(paths)
        return found

    def get_file_info_selector(self, selector: pyarrow.fs.FileSelector) -> list[pyarrow.fs.FileInfo]:
        found: list[pyarrow.fs.FileInfo] = self._store.get_file_info(selector)
        return found

    def create_dir(self, path: str, recursive: bool) -> None:
        self._store.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        self._store.delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self._store.delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError("all buckets of an account are never deleted")

    def delete_file(self, path: str) -> None:
        self._store.delete_file(path)

    def move(self, src: str, dest: str) -> None:
        self._store.move(src, dest)

    def copy_file(self, src: str, dest: str) -> None:
        self._store.copy_file(src, dest)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self._store.open_input_stream(path, compression=None)

    def open_input_file(self, path: str) -> pa.NativeFile:
        return self._store.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        del metadata  # the package writes none
        return self._store.open_output_stream(path, compression=None)

    def open_append_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        raise NotImplementedError("objects cannot be appended to")
