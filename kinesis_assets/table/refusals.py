"""Which failed writes cannot succeed by trying again: refused for lack of permission, or for what is there.

Arrow raises them with an error number, or with S3's error code by the AWS SDK's name for it; delta-rs has the
same in the text of its errors alone. That a disk is full is not one of them: it may have room in a moment.
"""

from __future__ import annotations

import errno
import re

from kinesis_assets.errors import TableNotWritable

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
# S3's answer as delta-rs repeats it, and the code as Arrow reports it.
_CODE = re.compile(r"<Code>(\w+)</Code>|\bAWS Error (\w+)")


def refusal(error: BaseException) -> str | None:
    """Why a write was refused, in a few words; None if another try may succeed.

    Args:
        error: As Arrow or delta-rs raised it.
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
    """The error of a table for a write that was refused for good; None if another try may succeed.

    Args:
        table: The table's URI.
        error: As Arrow or delta-rs raised it.
        outcome: What is known of what was to be written, as a sentence.
    """
    reason = refusal(error)
    if reason is None:
        return None
    told = f"cannot be written to: {reason} ({error}). {outcome}".rstrip()
    return TableNotWritable(table, f"{told} Let this process write to it, or name another table")
