"""The folder of a table, on a local disk or S3, through Arrow's file systems."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.fs

from kinesis_assets.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class TableFolder:
    """The folder of a table. It can be pickled, so that Spark tasks open it by themselves.

    Attributes:
        uri: `s3://bucket/prefix` or `file:///path`, without a slash at its end.
    """

    uri: str

    @classmethod
    def at(cls, table: str) -> TableFolder:
        """The folder that a user named: a path (relative to the working directory) or a URI.

        Raises:
            InvalidInput: Neither a path nor a URI of a supported kind.
        """
        scheme, separator, _ = table.partition("://")
        if not table.strip():
            raise InvalidInput("a table needs a path or a URI, as in s3://bucket/orders")
        if not separator:
            return cls(Path(table).expanduser().absolute().as_uri())
        if scheme not in ("file", "s3"):
            raise InvalidInput(f"table {table}: only s3:// and file:// URIs and local paths are supported")
        return cls(table.rstrip("/"))

    def open(self) -> pyarrow.fs.FileSystem:
        """A file system whose root is the folder. S3 is reached as the AWS SDK's environment says."""
        filesystem, path = pyarrow.fs.FileSystem.from_uri(self.uri)
        if isinstance(filesystem, pyarrow.fs.LocalFileSystem):
            filesystem.create_dir(path, recursive=True)
        return pyarrow.fs.SubTreeFileSystem(path, filesystem)


def write_new(filesystem: pyarrow.fs.FileSystem, path: str) -> pa.NativeFile:
    """Open a file for writing, with the folder it is in (object stores have none, and need none)."""
    if isinstance(filesystem.base_fs, pyarrow.fs.LocalFileSystem):
        filesystem.create_dir(path.rpartition("/")[0], recursive=True)
    return filesystem.open_output_stream(path, compression=None)
