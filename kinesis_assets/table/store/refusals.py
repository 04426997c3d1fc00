"""Recognizes failed writes that no retry can mend, such as those for lack of permission.

Arrow raises them with an error number, or with the AWS SDK's name of S3's error code. delta-rs reports the
same only in the text of its errors. A full disk is not among them, because space may become available.
"""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING

from kinesis_assets.errors import TableNotWritable
from kinesis_assets.table.store.storage import write_new

if TYPE_CHECKING:
    import pyarrow.fs

_PROBE = "_kinesis/writable"
"""Always the same name, so that no file has to be deleted."""

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
    """Return why a write was refused, in a few words; None if a retry may succeed.

    Args:
        error: The error, as raised by Arrow or delta-rs.
    """
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
        table: The table's URI.
        error: The error, as raised by Arrow or delta-rs.
        outcome: A sentence about the result for the user, such as "Nothing was committed."
    """
    reason = refusal(error)
    if reason is None:
        return None
    failure = f"cannot be written to: {reason} ({error}). {outcome}".rstrip()
    return TableNotWritable(table, f"{failure} Allow this process to write to it, or use another table")


def require_writable(table: str, filesystem: pyarrow.fs.FileSystem) -> None:
    """Write an empty file into a table's folder, to fail before any expensive work.

    Args:
        table: The table's URI.
        filesystem: The table's folder.

    Raises:
        TableNotWritable: Writing is refused. Other errors are ignored: a later attempt may succeed.
    """
    try:
        write_new(filesystem, _PROBE).close()
    except OSError as error:
        if refused := not_writable(table, error):
            raise refused from None
