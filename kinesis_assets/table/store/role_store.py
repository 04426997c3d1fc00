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
from kinesis_assets.table.store.forwarding import Forwarding

if TYPE_CHECKING:
    from kinesis_assets.kinesis.role import AssumedRole


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
    credentials = credentials_of(role).current()
    return {
        "AWS_ACCESS_KEY_ID": credentials.access_key,
        "AWS_SECRET_ACCESS_KEY": credentials.secret_key,
        "AWS_SESSION_TOKEN": credentials.token,
    }


class _Store(Forwarding):
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
