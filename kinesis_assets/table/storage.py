"""The folder of a table, on a local disk or S3, through Arrow's file systems."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from kinesis_assets.errors import InvalidInput, TableUnreachable

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs

_LONGEST = 1000
"""Characters of a path or URI; a key of S3 has at most 1,024 bytes."""

_IN_NO_PATH = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_FILE = "file://"
_S3 = re.compile(r"s3://[a-z0-9][a-z0-9.-]+(/[^\s?#%]+)?")


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
        if len(table) > _LONGEST or _IN_NO_PATH.search(unquote(table)):
            raise InvalidInput(
                f"table {table[:80]!r}: a path or URI has at most {_LONGEST} characters, none of control"
            )
        if "://" not in table:
            return cls(_local(table))
        if table.startswith(f"{_FILE}/") and not {*"?#"} & {*table}:
            return cls(_local(unquote(table.removeprefix(_FILE))))
        if not _S3.fullmatch(table) or {".", ".."} & {*table.split("/")}:
            # Not told where it may hold a key or a password.
            told = "a table" if {*"@?"} & {*table} else f"table {table}"
            raise InvalidInput(
                f"{told}: give a path, s3://bucket/prefix or file:///path; no other is supported, and no "
                "'..', user or query in it"
            )
        return cls(table.rstrip("/"))

    def open(self) -> pyarrow.fs.FileSystem:
        """A file system whose root is the folder, there or not. S3 is reached as the environment says.

        Raises:
            TableUnreachable: The bucket's region cannot be found out.
        """
        import pyarrow as pa  # noqa: PLC0415  # definitions name a folder and open none
        import pyarrow.fs  # noqa: PLC0415

        try:
            filesystem, path = pyarrow.fs.FileSystem.from_uri(self.uri)
        except (OSError, pa.ArrowInvalid) as error:
            raise TableUnreachable(self.uri, f"cannot be reached: {error}") from None
        return pyarrow.fs.SubTreeFileSystem(path, filesystem)


def _local(path: str) -> str:
    """A path as a URI that Arrow and Delta take for the same folder."""
    if "%" in path:
        raise InvalidInput(f"table {path}: Delta's library cannot open a path with a %; name another")
    try:
        absolute = Path(path).expanduser().absolute()
        # Delta's library drops `..` with the name before it, though that may be a link to elsewhere.
        return (absolute.resolve() if ".." in absolute.parts else absolute).as_uri()
    except (RuntimeError, OSError) as error:  # no such user, or a link to itself
        raise InvalidInput(f"table {path}: {error}") from error


def write_new(filesystem: pyarrow.fs.FileSystem, path: str) -> pa.NativeFile:
    """Open a file for writing, with the folder it is in (object stores have none, and need none)."""
    import pyarrow.fs  # noqa: PLC0415  # as above

    if isinstance(filesystem.base_fs, pyarrow.fs.LocalFileSystem):
        filesystem.create_dir(path.rpartition("/")[0], recursive=True)
    return filesystem.open_output_stream(path, compression=None)


def files_in(filesystem: pyarrow.fs.FileSystem, folder: str) -> list[pyarrow.fs.FileInfo]:
    """The files in a folder, without those in folders inside it; none if it does not exist."""
    import pyarrow.fs  # noqa: PLC0415  # as above

    selector = pyarrow.fs.FileSelector(folder, allow_not_found=True)
    return [info for info in filesystem.get_file_info(selector) if info.type is pyarrow.fs.FileType.File]
