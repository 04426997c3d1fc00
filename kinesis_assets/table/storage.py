"""The folder of a table, on a local disk or S3, through Arrow's file systems."""

from __future__ import annotations

import re
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
        if not table.strip():
            raise InvalidInput("a table needs a path or a URI, as in s3://bucket/orders")
        if "://" not in table:
            return cls(Path(table).expanduser().absolute().as_uri())
        if not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]+(/\S+)?|file:///\S+", table):
            raise InvalidInput(
                f"table {table}: give a path, s3://bucket/prefix or file:///path; no other is supported"
            )
        return cls(table.rstrip("/"))

    def open(self) -> pyarrow.fs.FileSystem:
        """A file system whose root is the folder, there or not. S3 is reached as the environment says."""
        filesystem, path = pyarrow.fs.FileSystem.from_uri(self.uri)
        return pyarrow.fs.SubTreeFileSystem(path, filesystem)


def write_new(filesystem: pyarrow.fs.FileSystem, path: str) -> pa.NativeFile:
    """Open a file for writing, with the folder it is in (object stores have none, and need none)."""
    if isinstance(filesystem.base_fs, pyarrow.fs.LocalFileSystem):
        filesystem.create_dir(path.rpartition("/")[0], recursive=True)
    return filesystem.open_output_stream(path, compression=None)
