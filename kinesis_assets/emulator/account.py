"""The account: every stream of one AWS account in one region."""

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
"""The account's quota of open shards: https://docs.aws.amazon.com/streams/latest/dev/service-sizes-and-limits.html"""


class Account:
    """One account of the service, and the way to the others.

    Whoever uses it holds `lock`, which all accounts share, so every operation on it is atomic.

    Attributes:
        account_id: Twelve digits.
        lock: See above.
        clock: The service's, for all accounts.
        accounts: All of the service, by id.
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
        """An account of the same service; it is there once it is asked for."""
        return self.accounts.get(account_id) or Account(self._now, account_id, self)

    def own_stream(self, arn: str) -> Stream | None:
        """This account's own stream of that ARN, if there is one."""
        found = self._streams.get(arn.rpartition("/")[2])
        return None if found is None or found.arn != arn else found

    @property
    def stream_names(self) -> list[str]:
        """The names of all streams, in order."""
        return sorted(self._streams)

    def create_stream(self, name: str, shard_count: int) -> Stream:
        """Create a stream of evenly split shards."""
        if name in self._streams:
            raise ResourceInUseException(f"Stream {name} under account {self.account_id} already exists.")
        self.check_shard_limit(shard_count)
        arn = f"arn:aws:kinesis:{REGION}:{self.account_id}:stream/{name}"
        stream = self._streams[name] = Stream(name, arn, shard_count, self.clock)
        return stream

    def delete_stream(self, stream: Stream) -> None:
        """Forget a stream and its records."""
        del self._streams[stream.name]

    def stream(self, name: str | None, arn: str | None = None, operation: str | None = None) -> Stream:
        """The stream of that name, or of that ARN, or of both; without what is past its retention.

        By its ARN it may be another account's, if its owner lets this account call the operation.
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
            raise InvalidArgumentException(f"StreamARN {arn} is not that of stream {name}.")
        found.trim()
        return found

    def same_stream(
        self, name: str, created_at: int, arn: str | None = None, operation: str | None = None
    ) -> Stream:
        """The stream of that name, or of that ARN, if it is still the one that was created then."""
        stream = self.stream(name if arn is None else None, arn, operation)
        if stream.created_at != created_at:
            raise ResourceNotFoundException(
                f"Stream {name} under account {self.account_id} not found: it was deleted and created again."
            )
        return stream

    def _shared_stream(self, owner: str, arn: str, operation: str | None) -> Stream:
        """Whether there is no such stream, or no right to it, is the same to a stranger, as on AWS."""
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
        """Refuse what would open more shards than an account may have."""
        current = sum(len(stream.open_shards) for stream in self._streams.values())
        if current + additional > SHARD_LIMIT:
            raise LimitExceededException(
                f"This request would exceed the shard limit for the account {self.account_id} in {REGION}. "
                f"Current shard count for the account: {current}. Limit: {SHARD_LIMIT}. "
                f"Number of additional shards that would have resulted from this request: {additional}."
            )


def _account_in(arn: str) -> str:
    """The account of a stream's ARN, whose pattern was checked."""
    return arn.split(":")[4]
