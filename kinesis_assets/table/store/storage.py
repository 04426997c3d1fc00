"""Opens the folder of a table, on a local disk or S3, through Arrow's file systems, and reports its errors.

A write that is refused for good, such as for lack of permission, is distinguished from one that a retry may
complete. Arrow raises an error number, or the AWS SDK's name of S3's error code. delta-rs reports the same
only in the text of its errors. A full disk is no such refusal, because space may become available.
"""

from __future__ import annotations

import errno
import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote
from uuid import uuid4

import msgspec

from kinesis_assets.errors import (
    InvalidInput,
    RoleNotAssumed,
    TableNotWritable,
    TableUnreachable,
    reason_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    import pyarrow.fs

    from kinesis_assets.kinesis.role import AssumedRole

_MAX_LENGTH = 1000
"""Maximum length of a path or URI in characters; an S3 key has at most 1,024 bytes."""

_INVALID = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_FILE = "file://"

ICEBERG_METADATA = "metadata/"
"""The folder of the metadata of an Iceberg table, in that of the table."""

_METADATA = {"delta": ("_delta_log", ".json"), "iceberg": ("metadata", ".metadata.json")}
"""The folder with the metadata of a table, and how the name of one of its files ends."""

_IN_INNER_TABLE = re.compile(r"(.+?)/(?:(?:_delta_log|_kinesis)/|metadata/[^/]*\.metadata\.json)")
"""A path by which a subfolder is that of a table."""

_AS_ONE_REQUEST = "allow_delayed_open=true"
"""Arrow's option to put a file of less than 10 MB with one request to S3. Without it, each file is a
multipart upload, which takes three."""

DAMAGED = (msgspec.MsgspecError, UnicodeDecodeError)
"""What decoding a damaged file raises. The latter is raised for a text that is not UTF-8."""

_S3 = re.compile(r"s3://[a-z0-9][a-z0-9.-]+(/[^\s?#%]+)?")


@dataclass(frozen=True, slots=True)
class TableFolder:
    """The folder of a table. It can be pickled, so that Spark tasks can open it.

    Attributes:
        uri: `s3://bucket/prefix` or `file:///path`, without a trailing slash.
        role: The role that accesses a folder on S3; None for the credentials of the process.
        rows: The folder with the data files and the metadata, if they are not in this one; then it has only
            the folder `_kinesis`.
        region: The region of the bucket; None to ask S3 for it.
    """

    uri: str
    role: AssumedRole | None = None
    rows: TableFolder | None = None
    region: str | None = None

    @classmethod
    def at(cls, table: str, role: AssumedRole | None = None) -> TableFolder:
        """Return the folder for a user's path (relative to the working directory) or URI.

        Raises:
            InvalidInput: The text is neither a valid path nor a URI of a supported kind.
        """
        if not table.strip():
            raise InvalidInput("a table needs a path or a URI, as in s3://bucket/orders")
        if len(table) > _MAX_LENGTH or _INVALID.search(unquote(table)):
            raise InvalidInput(
                f"invalid table {table[:80]!r}: give at most {_MAX_LENGTH} characters, no control character"
            )
        if "://" not in table:
            return cls(_local(table), role)
        if table.startswith(f"{_FILE}/") and not {*"?#"} & {*table}:
            return cls(_local(unquote(table.removeprefix(_FILE))), role)
        if not _S3.fullmatch(table) or {".", ".."} & {*table.split("/")}:
            # The URI is not repeated if it may contain a key or a password.
            subject = "a table" if {*"@?"} & {*table} else f"table {table}"
            raise InvalidInput(
                f"{subject}: invalid URI; give a path, s3://bucket/prefix or file:///path, without '..', "
                "user or query"
            )
        return cls(table.rstrip("/"), role)

    @property
    def bucket(self) -> tuple[str, str] | None:
        """The bucket and the prefix, which may be empty, of a folder on S3; None for a folder on a disk."""
        if not self.uri.startswith("s3://"):
            return None
        bucket, _, prefix = self.uri.removeprefix("s3://").partition("/")
        return bucket, prefix

    @property
    def place(self) -> str:
        """The URI of the folder without symbolic links, which is the same for every spelling of its path."""
        if self.bucket is not None:
            return self.uri
        return Path(unquote(self.uri.removeprefix(_FILE))).resolve().as_uri()

    def open(self) -> pyarrow.fs.FileSystem:
        """Return a file system whose root is the folder, which need not exist.

        For S3, the endpoint comes from the environment. So do the credentials, unless there is a role.

        Raises:
            TableUnreachable: The bucket's region cannot be determined.
        """
        import pyarrow as pa  # noqa: PLC0415  # definitions name a folder without opening it
        import pyarrow.fs  # noqa: PLC0415

        if self.rows is not None:
            from kinesis_assets.table.store.forwarding_file_systems import in_two_places  # noqa: PLC0415  # rarely needed

            return in_two_places(replace(self, rows=None).open(), self.rows.open())
        try:
            if self.role is not None and self.bucket is not None:
                from kinesis_assets.table.store.forwarding_file_systems import store_of  # noqa: PLC0415  # only roles need it

                filesystem = store_of(self.role, self.bucket[0], self.region)
                path = self.uri.removeprefix("s3://")
            else:
                region = "" if self.region is None else f"&region={self.region}"
                filesystem, path = pyarrow.fs.FileSystem.from_uri(
                    self.uri if self.bucket is None else f"{self.uri}?{_AS_ONE_REQUEST}{region}"
                )
        except (OSError, pa.ArrowInvalid) as error:
            raise TableUnreachable(self.uri, f"cannot be reached: {error}") from None
        return pyarrow.fs.SubTreeFileSystem(path, filesystem)

    def storage_options(self) -> dict[str, str] | None:
        """Return the options with which delta-rs opens the table now; None if it needs none.

        With a role they hold its credentials. Do not keep them: those of a later call last longer.

        Raises:
            RoleNotAssumed: The role cannot be assumed.
        """
        if self.role is None or self.bucket is None:
            return None
        from kinesis_assets.table.store.forwarding_file_systems import options_of  # noqa: PLC0415  # only roles need it

        return options_of(self.role)


def _local(path: str) -> str:
    """Return a path as a URI that Arrow and delta-rs resolve to the same folder."""
    if "%" in path:
        raise InvalidInput(f"table {path}: delta-rs cannot open a path with a %; use another path")
    try:
        absolute = Path(path).expanduser().absolute()
        # delta-rs removes `..` together with the name before it, although that may be a symbolic link.
        return (absolute.resolve() if ".." in absolute.parts else absolute).as_uri()
    except (RuntimeError, OSError) as error:  # no such user, or a link to itself
        raise InvalidInput(f"table {path}: {error}; correct the path") from error


def write_new(filesystem: pyarrow.fs.FileSystem, path: str) -> pa.NativeFile:
    """Open a file for writing. On a local disk, its folder is created if it is missing."""
    import pyarrow.fs  # noqa: PLC0415  # as above

    parent = path.rpartition("/")[0]
    if parent and isinstance(filesystem.base_fs, pyarrow.fs.LocalFileSystem):
        filesystem.create_dir(parent, recursive=True)
    return filesystem.open_output_stream(path, compression=None)


def replace_file(filesystem: pyarrow.fs.FileSystem, path: str, content: bytes) -> None:
    """Write a small file, so that readers see either all of it or the file that it replaces."""
    import pyarrow.fs  # noqa: PLC0415  # as above

    if not isinstance(filesystem.base_fs, pyarrow.fs.LocalFileSystem):
        with write_new(filesystem, path) as file:  # an object appears when it is complete
            file.write(content)
        return
    unfinished = f"{path}.{uuid4().hex}"
    with write_new(filesystem, unfinished) as file:
        file.write(content)
    filesystem.move(unfinished, path)


def files_in(filesystem: pyarrow.fs.FileSystem, folder: str) -> list[pyarrow.fs.FileInfo]:
    """Return the files in a folder, without those in subfolders; none if the folder does not exist."""
    import pyarrow.fs  # noqa: PLC0415  # as above

    selector = pyarrow.fs.FileSelector(folder, allow_not_found=True)
    return [info for info in filesystem.get_file_info(selector) if info.type is pyarrow.fs.FileType.File]


def files_below(filesystem: pyarrow.fs.FileSystem) -> list[pyarrow.fs.FileInfo]:
    """Return the files in a table's folder and its subfolders, without those of logs and of this package.

    Those of other tables in these subfolders are left out too.
    """
    files = _all_files(filesystem)
    others = tuple(f"{folder}/" for folder in _tables_among(files))
    return [info for info in files if not info.path.startswith(("_", *others))]


def tables_below(filesystem: pyarrow.fs.FileSystem) -> list[str]:
    """Return the subfolders of a table's folder that are those of other tables.

    Subfolders whose name begins with an underscore or a dot are left out, as engines ignore them.
    """
    found = _tables_among(_all_files(filesystem))
    return sorted(folder for folder in found if not folder.startswith(("_", ".")))


def _all_files(filesystem: pyarrow.fs.FileSystem) -> list[pyarrow.fs.FileInfo]:
    import pyarrow.fs  # noqa: PLC0415  # as above

    infos = filesystem.get_file_info(pyarrow.fs.FileSelector("", recursive=True))
    return [info for info in infos if info.type is pyarrow.fs.FileType.File]


def _tables_among(files: Iterable[pyarrow.fs.FileInfo]) -> set[str]:
    return {found[1] for info in files if (found := _IN_INNER_TABLE.match(info.path))}


def data_files_in(filesystem: pyarrow.fs.FileSystem) -> list[pyarrow.fs.FileInfo]:
    """Return the data files in a table's folder and its subfolders, whether or not the log names them."""
    return [info for info in files_below(filesystem) if not info.path.startswith(ICEBERG_METADATA)]


def has_metadata_of(format_: str, files: pyarrow.fs.FileSystem) -> bool:
    """Return whether the folder of a table has the metadata of one in a format, "delta" or "iceberg".

    Raises:
        OSError: The folder cannot be listed.
    """
    folder, ending = _METADATA[format_]
    return any(info.path.endswith(ending) for info in files_in(files, folder))


def is_missing(files: pyarrow.fs.FileSystem, path: str) -> bool:
    """Return whether a file that could not be opened is missing by a second request too.

    What follows from a missing file may be final, so it must not depend on one response of the store.

    Raises:
        OSError: It cannot be found out at present.
    """
    import pyarrow.fs  # noqa: PLC0415  # as above

    return bool(files.get_file_info(path).type is pyarrow.fs.FileType.NotFound)


_NUMBERS = {
    errno.EROFS: "read-only file system",
    errno.EACCES: "permission denied",
    errno.EPERM: "operation not permitted",
    errno.ENOTDIR: "a file exists where a folder is needed",
}
_CODES = {
    "ACCESSDENIED": "S3 returned AccessDenied",
    "ALLACCESSDISABLED": "S3 returned AllAccessDisabled",
    "NOSUCHBUCKET": "there is no such bucket",
}
# Rust's texts for an error number: std::io::Error as Display and as Debug.
_NUMBER = re.compile(r"\(os error (\d+)\)|\bOs \{ code: (\d+)")
# S3's response as delta-rs repeats it, and the code as Arrow reports it.
_CODE = re.compile(r"<Code>(\w+)</Code>|\bAWS Error (\w+)")


def refusal(error: BaseException) -> str | None:
    """Return why a write was refused, in a few words; None if a retry may succeed."""
    if isinstance(error, OSError) and error.errno is not None:
        return _NUMBERS.get(error.errno)
    text = str(error)
    if found := _NUMBER.search(text):
        return _NUMBERS.get(int(found[1] or found[2]))
    if found := _CODE.search(text):
        return _CODES.get((found[1] or found[2]).replace("_", "").upper())
    return None


def not_writable(table: str, error: BaseException, outcome: str = "") -> TableNotWritable | None:
    """Return the error to raise for a write that was refused for good; None if a retry may succeed.

    Args:
        outcome: A sentence about the result for the user, such as "Nothing was committed."
    """
    reason = refusal(error)
    if reason is None:
        return None
    failure = f"cannot be written to: {reason} ({error}). {outcome}".rstrip()
    return TableNotWritable(table, f"{failure} Allow this process to write to it, or use another table")


def unreachable(table: str, done: str, error: Exception) -> TableUnreachable:
    """Return the error to raise if something cannot be done to a table, such as "opened"."""
    advice = error.advice if isinstance(error, RoleNotAssumed) else ""
    return TableUnreachable(table, f"cannot be {done}: {reason_of(error)}", advice=advice)


@contextmanager
def table_errors(
    kinds: tuple[type[Exception], ...], table: str, done: str, *, writes: bool = False
) -> Iterator[None]:
    """Raise errors of a library as one of the package, without their cause, which may contain credentials.

    Args:
        kinds: The errors of the library, and of the credentials that it needs.
        done: See `unreachable`.
        writes: Whether that needs the permission to write.

    Raises:
        TableNotWritable: Writing is refused.
        TableUnreachable: Another of these errors was raised.
    """
    try:
        yield
    except kinds as error:
        raise (not_writable(table, error) if writes else None) or unreachable(table, done, error) from None
