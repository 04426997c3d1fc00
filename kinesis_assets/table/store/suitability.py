"""Whether a table can be written: its store must honor conditional puts, and permit writes.

A commit creates the next entry of a table's log on the condition that there is none, and the store decides
which of two commits is first. If a store ignores the condition, the second one overwrites the first without
an error, and its rows are lost.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from kinesis_assets.errors import RoleNotAssumed, StoreUnsuitable, without_secrets
from kinesis_assets.kinesis.sdk import sdk_session
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.table.store.storage import not_writable, write_new

if TYPE_CHECKING:
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
