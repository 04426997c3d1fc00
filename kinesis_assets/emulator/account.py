"""An AWS account in one region, with all of its streams."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kinesis_assets.emulator.clock import Clock
from kinesis_assets.emulator.errors import (
    AccessDeniedException,
    InvalidArgumentException,
    LimitExceededException,
    ResourceInUseException,
    ResourceNotFoundException,
)
from kinesis_assets.emulator.streams import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

ACCOUNT_ID = "000000000000"
REGION = "us-east-1"
SHARD_LIMIT = 20_000
"""The quota of open shards: https://docs.aws.amazon.com/streams/latest/dev/service-sizes-and-limits.html"""


class Account:
    """One account of the service. It also gives access to the service's other accounts.

    Callers must hold `lock`, which all accounts share. Every operation is therefore atomic.

    Attributes:
        account_id: The account id, twelve digits.
        lock: The lock that callers must hold.
        clock: The service's clock, which all accounts share.
        accounts: All accounts of the service by account id.
    """

    def __init__(
        self, now: Callable[[], float], account_id: str = ACCOUNT_ID, sibling: Account | None = None
    ) -> None:
        self.account_id = account_id
        self.lock: threading.RLock = threading.RLock() if sibling is None else sibling.lock
        self.clock: Clock = Clock(now) if sibling is None else sibling.clock
        self.accounts: dict[str, Account] = {} if sibling is None else sibling.accounts
        self.accounts[account_id] = self
        self._now = now
        self._streams: dict[str, Stream] = {}

    def by_id(self, account_id: str) -> Account:
        """Return an account of the same service, creating it on first use."""
        return self.accounts.get(account_id) or Account(self._now, account_id, self)

    def own_stream(self, arn: str) -> Stream | None:
        """Return the stream with this ARN if this account owns it, else None."""
        found = self._streams.get(arn.rpartition("/")[2])
        return None if found is None or found.arn != arn else found

    @property
    def stream_names(self) -> list[str]:
        """The names of all streams, sorted."""
        return sorted(self._streams)

    def create_stream(self, name: str, shard_count: int) -> Stream:
        """Create a stream whose shards divide the hash keys evenly."""
        if name in self._streams:
            raise ResourceInUseException(f"Stream {name} under account {self.account_id} already exists.")
        self.check_shard_limit(shard_count)
        arn = f"arn:aws:kinesis:{REGION}:{self.account_id}:stream/{name}"
        stream = self._streams[name] = Stream(name, arn, shard_count, self.clock)
        return stream

    def delete_stream(self, stream: Stream) -> None:
        """Delete a stream and its records."""
        del self._streams[stream.name]

    def stream(self, name: str | None, arn: str | None = None, operation: str | None = None) -> Stream:
        """Return a stream by name, by ARN or by both, after deleting its expired records.

        An ARN may name a stream of another account if that account's policy allows the operation.
        """
        if name is None and arn is None:
            raise InvalidArgumentException("Either StreamName or StreamARN should be provided.")
        if name is None and arn is not None and (owner := _account_in(arn)) != self.account_id:
            return self._shared_stream(owner, arn, operation)
        found = self._streams.get(name if name is not None else str(arn).rpartition("/")[2])
        if found is None or (name is None and found.arn != arn):
            raise ResourceNotFoundException(
                f"Stream {name or arn} under account {self.account_id} not found."
            )
        if arn is not None and found.arn != arn:
            raise InvalidArgumentException(f"StreamARN {arn} does not match stream {name}.")
        found.trim()
        return found

    def same_stream(
        self, name: str, created_at: int, arn: str | None = None, operation: str | None = None
    ) -> Stream:
        """Return a stream by name or by ARN.

        Raises:
            ResourceNotFoundException: The stream's creation time, in milliseconds, is not `created_at`.
        """
        stream = self.stream(name if arn is None else None, arn, operation)
        if stream.created_at != created_at:
            raise ResourceNotFoundException(
                f"Stream {name} under account {self.account_id} not found: it was deleted and created again."
            )
        return stream

    def _shared_stream(self, owner: str, arn: str, operation: str | None) -> Stream:
        """Return another account's stream. As on AWS, a missing stream and a missing right look the same."""
        found = self.by_id(owner).own_stream(arn)
        if found is None or operation not in found.shared.get(self.account_id, ()):
            raise AccessDeniedException(
                f"User: arn:aws:iam::{self.account_id}:user/local is not authorized to perform: "
                f"kinesis:{operation} on resource: {arn} because no resource-based policy allows the "
                f"kinesis:{operation} action"
            )
        found.trim()
        return found

    def check_shard_limit(self, additional: int) -> None:
        """Raise `LimitExceededException` if the additional open shards would exceed the account's quota."""
        current = sum(len(stream.open_shards) for stream in self._streams.values())
        if current + additional > SHARD_LIMIT:
            raise LimitExceededException(
                f"This request would exceed the shard limit for the account {self.account_id} in {REGION}. "
                f"Current shard count for the account: {current}. Limit: {SHARD_LIMIT}. "
                f"Number of additional shards that would have resulted from this request: {additional}."
            )


def _account_in(arn: str) -> str:
    """Return the account id in a stream ARN. The ARN must be well-formed."""
    return arn.split(":")[4]
