"""The AWS SDK's connections, with two differences: who waits for the network lets other threads work, and a
call goes out in one piece. Its head and its body each by itself are twice the work for both ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
)
from urllib3.util.wait import wait_for_read

from kinesis_assets.kinesis.work_lock import let_go


def use_patient_connections(session: Any) -> None:
    """Have an HTTP session of botocore's make such connections from now on."""
    session._pool_classes_by_scheme.update(http=_Pool, https=_SecurePool)  # noqa: SLF001  # no public way


class _Patient:
    """Before urllib3's connections, in the order of classes."""

    if TYPE_CHECKING:
        sock: Any
        timeout: float | None

    _unsent: list[bytes] | None = None

    def connect(self) -> None:
        with let_go():
            super().connect()  # type: ignore[misc]

    def request(self, *args: Any, **kwargs: Any) -> None:
        unsent: list[bytes] = []
        self._unsent = unsent
        try:
            super().request(*args, **kwargs)  # type: ignore[misc]
        finally:
            self._unsent = None
        self.send(b"".join(unsent))

    def send(self, data: bytes) -> None:
        if self._unsent is None:
            super().send(data)  # type: ignore[misc]
        else:
            self._unsent.append(data)

    def getresponse(self) -> Any:
        with let_go():
            came = wait_for_read(self.sock, self.timeout)
        if not came:
            raise TimeoutError("timed out")
        return super().getresponse()  # type: ignore[misc]


class _Connection(_Patient, AWSHTTPConnection):  # type: ignore[misc]  # botocore has no types
    pass


class _SecureConnection(_Patient, AWSHTTPSConnection):  # type: ignore[misc]
    pass


class _Pool(AWSHTTPConnectionPool):  # type: ignore[misc]
    ConnectionCls = _Connection


class _SecurePool(AWSHTTPSConnectionPool):  # type: ignore[misc]
    ConnectionCls = _SecureConnection
