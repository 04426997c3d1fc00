"""Whether a table can be written: its store must honor conditional puts, and permit writes.

A commit creates the next entry of a table's log on the condition that there is none, and the store decides
which of two commits is first. If a store ignores the condition, the second one overwrites the first without
an error, and its rows are lost.

Recognizes failed writes that no retry can mend, such as those for lack of permission. Arrow raises them
with an error number, or with the AWS SDK's name of S3's error code. delta-rs reports the same only in the
text of its errors. A full disk is not among them, because space may become available.
"""

from __future__ import annotations

import errno
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from kinesis_assets.errors import (
    RoleNotAssumed,
    StoreUnsuitable,
    TableNotWritable,
    TableUnreachable,
    reason_of,
    without_secrets,
)
from kinesis_assets.kinesis.sdk import sdk_session
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.table.store.storage import write_new

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.fs

    from kinesis_assets.kinesis.role import AssumedRole
    from kinesis_assets.table.store.storage import TableFolder


PROBES_FOLDER = "_kinesis/probes"
_CONDITION_FAILED = {409, 412}
"""The statuses of a put whose condition is false: 409 while another put to the key is in progress."""


def check_conditional_puts(table: str, folder: TableFolder) -> str | None:
    """Put an object twice into a table's folder, each time on the condition that it does not exist.

    The object is deleted afterwards. Nothing is put into a folder on a disk.

    Returns:
        Why the store could not be checked; None if it honors the condition, or the folder is on a disk.

    Raises:
        StoreUnsuitable: The store ignores the condition.
    """
    place = folder.bucket
    if place is None:
        return None
    bucket, prefix = place
    probe = {"Bucket": bucket, "Key": "/".join(filter(None, [prefix, PROBES_FOLDER, uuid4().hex]))}
    try:
        client = _client(folder.role)
        try:
            # The first put fails too, if the SDK repeats it because its response was lost.
            honors = not (_put(client, probe) and _put(client, probe))
        finally:
            with suppress(ClientError):
                client.delete_object(**probe)
    except (BotoCoreError, ClientError, RoleNotAssumed, ValueError) as error:
        # boto3 raises ValueError for an invalid endpoint.
        return without_secrets(str(error))
    if not honors:
        raise StoreUnsuitable(
            table,
            "the store ignores the condition of a put with If-None-Match, so one run would overwrite the "
            "commit of another, and its rows would be lost. Use a store that supports conditional puts, as "
            "Amazon S3 does",
        )
    return None


def _put(client: Any, probe: dict[str, str]) -> bool:  # botocore has no type hints
    """Put an object if it does not exist. Returns whether it was written."""
    try:
        client.put_object(**probe, Body=b"", IfNoneMatch="*")
    except ClientError as error:
        if error.response["ResponseMetadata"].get("HTTPStatusCode") in _CONDITION_FAILED:
            return False
        raise
    return True


def _client(role: AssumedRole | None) -> Any:
    """Return a client whose endpoint and region come from the environment, as for the table.

    So do its credentials, unless there is a role.
    """
    config = Config(
        retries={"mode": "standard", "total_max_attempts": 3},
        connect_timeout=10,
        read_timeout=30,
        s3={"addressing_style": "path"},  # as delta-rs does
        # Some stores that are compatible with S3 do not know the newer checksums.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    return sdk_session(ClientSettings(role=role)).create_client("s3", config=config)


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


def require_writable(table: str, filesystem: pyarrow.fs.FileSystem) -> None:
    """Write an empty file into a table's folder, to fail before any expensive work.

    Raises:
        TableNotWritable: Writing is refused. Other errors are ignored: a later attempt may succeed.
    """
    try:
        write_new(filesystem, _PROBE).close()
    except OSError as error:
        if refused := not_writable(table, error):
            raise refused from None
