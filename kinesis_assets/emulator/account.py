"""An AWS account in one region and its streams: their shards over time, their consumers, and routing."""

from __future__ import annotations

import threading
from bisect import bisect_right
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

from kinesis_assets.emulator.shapes import (
    AccessDeniedException,
    InvalidArgumentException,
    LimitExceededException,
    ResourceInUseException,
    ResourceNotFoundException,
    milliseconds,
)
from kinesis_assets.emulator.shards import HashKeyRange, Shard, uniform_ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kinesis_assets.emulator.shapes import RecordDistributionStrategy, StreamMode


ACCOUNT_ID = "000000000000"
REGION = "us-east-1"
SHARD_LIMIT = 20_000
"""The quota of open shards: https://docs.aws.amazon.com/streams/latest/dev/service-sizes-and-limits.html"""


class Account:
    """One account of the service. It also gives access to the service's other accounts.

    Callers must hold `lock`, which all accounts share. Every operation is therefore atomic.

    Attributes:
        account_id: Twelve digits.
        clock: The service's clock, which all accounts share.
        accounts: All accounts of the service by account id.
        streams: The account's own streams by name.
    """

    def __init__(self, clock: Clock, account_id: str = ACCOUNT_ID, sibling: Account | None = None) -> None:
        self.account_id = account_id
        self.clock = clock
        self.lock: threading.RLock = threading.RLock() if sibling is None else sibling.lock
        self.accounts: dict[str, Account] = {} if sibling is None else sibling.accounts
        self.accounts[account_id] = self
        self.streams: dict[str, Stream] = {}

    def by_id(self, account_id: str) -> Account:
        """Return an account of the same service, creating it on first use."""
        return self.accounts.get(account_id) or Account(self.clock, account_id, self)

    def stream_by_arn(self, arn: str) -> Stream | None:
        """Return the stream with an ARN, which must be well-formed, of any account; None if there is none."""
        found = self.by_id(arn.split(":")[4]).streams.get(arn.rpartition("/")[2])
        return None if found is None or found.arn != arn else found

    def create_stream(self, name: str, shard_count: int) -> Stream:
        """Create a stream whose shards divide the hash keys evenly."""
        if name in self.streams:
            raise ResourceInUseException(f"Stream {name} under account {self.account_id} already exists.")
        self.check_shard_limit(shard_count)
        stream = self.streams[name] = Stream(name, self.arn_of(name), shard_count, self.clock)
        return stream

    def arn_of(self, name: str) -> str:
        """Return the ARN of a stream of the account."""
        return f"arn:aws:kinesis:{REGION}:{self.account_id}:stream/{name}"

    def delete_stream(self, stream: Stream) -> None:
        """Delete a stream and its records."""
        del self.streams[stream.name]

    def stream(self, name: str | None, arn: str | None = None, operation: str | None = None) -> Stream:
        """Return a stream by name, by ARN or by both, after deleting its expired records.

        An ARN may name a stream of another account if that account's policy allows the operation.
        """
        if name is None and arn is None:
            raise InvalidArgumentException("Either StreamName or StreamARN should be provided.")
        if name is None and arn is not None and arn.split(":")[4] != self.account_id:
            return self._shared_stream(arn, operation)
        found = self.streams.get(name if name is not None else str(arn).rpartition("/")[2])
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

    def _shared_stream(self, arn: str, operation: str | None) -> Stream:
        """Return another account's stream. As on AWS, a missing stream and a missing right look the same."""
        found = self.stream_by_arn(arn)
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
        current = sum(len(stream.open_shards) for stream in self.streams.values())
        if current + additional > SHARD_LIMIT:
            raise LimitExceededException(
                f"This request would exceed the shard limit for the account {self.account_id} in {REGION}. "
                f"Current shard count for the account: {current}. Limit: {SHARD_LIMIT}. "
                f"Number of additional shards that would have resulted from this request: {additional}."
            )


HOUR = 3_600_000
_start = attrgetter("hash_key_range.start")


class Stream:
    """A stream. A stream that is deleted and created again under the same name is another `Stream`.

    `shared` maps account ids to the operations that those accounts are allowed to call.

    A reshard is complete when the call returns, so a stream is always ACTIVE. The open shards cover all hash
    keys without overlap.
    """

    def __init__(self, name: str, arn: str, shard_count: int, clock: Clock) -> None:
        self.name = name
        self.arn = arn
        self.clock = clock
        self.created_at = clock.tick()
        self.retention_hours = 24
        self.max_record_size_kib = 1024
        self.mode: StreamMode = "PROVISIONED"
        self.distribution: RecordDistributionStrategy = "USER_PARTITION_KEY"
        self._distributed = 0
        self.shared: dict[str, frozenset[str]] = {}
        self.tags: dict[str, str] = {}
        self.consumers = Consumers(arn, clock.now)
        self.open_shards: list[Shard] = []
        self._shards: dict[str, Shard] = {}
        self._shards_created = 0
        self._trimmed_to = self.created_at
        self._open(uniform_ranges(shard_count), (), self.created_at)

    def __str__(self) -> str:
        return f"stream {self.name} under account {self.arn.split(':')[4]}"

    def check_created(self, at: float | None) -> None:
        """Raise `ResourceNotFoundException` if a creation time is given, in seconds, and is another one."""
        if at is not None and int(at) != self.created_at // 1000:  # many clients send only whole seconds
            raise ResourceNotFoundException(f"No {self} was created at {at}.")

    @property
    def shards(self) -> Sequence[Shard]:
        """All shards that are open or within retention, sorted by shard id."""
        return list(self._shards.values())

    @property
    def trim_horizon(self) -> int:
        """The earliest arrival time that can be read, in milliseconds. It never moves back."""
        return max(self.clock.now() - self.retention_hours * HOUR, self._trimmed_to)

    def shard(self, shard_id: str) -> Shard:
        """Return a shard by its id."""
        if shard_id not in self._shards:
            raise ResourceNotFoundException(f"Shard {shard_id} in {self} does not exist")
        return self._shards[shard_id]

    def shard_for(self, hash_key: int) -> Shard:
        """Return the open shard that receives new records with this hash key."""
        return self.open_shards[bisect_right(self.open_shards, hash_key, key=_start) - 1]

    def next_shards(self, count: int) -> list[Shard]:
        """Return the open shards of the next `count` records under the strategy AUTO: round robin."""
        return [
            self.open_shards[(self._distributed + number) % len(self.open_shards)] for number in range(count)
        ]

    def distribute(self) -> Shard:
        """Return the open shard that receives a new record under the strategy AUTO."""
        (shard,) = self.next_shards(1)
        self._distributed += 1
        return shard

    def trim(self) -> None:
        """Delete expired records, and then the shards that were closed before the trim horizon."""
        horizon = self.trim_horizon
        if horizon == self._trimmed_to:
            return
        self._trimmed_to = horizon
        for shard in self._shards.values():
            shard.trim_to(shard.position_at(horizon))
        self._shards = {
            shard_id: shard
            for shard_id, shard in self._shards.items()
            if shard.closed_at is None or shard.closed_at >= horizon
        }

    def split(self, shard: Shard, at: int) -> None:
        """Close a shard and open two children, which divide its hash keys at `at`."""
        keys = shard.hash_key_range
        self._reshard((shard,), (HashKeyRange(keys.start, at - 1), HashKeyRange(at, keys.end)))

    def merge(self, shard: Shard, adjacent: Shard) -> None:
        """Close two shards and open a child with the hash keys of both. `shard` has the lower hash keys."""
        keys, upper = shard.hash_key_range, adjacent.hash_key_range
        if keys.end + 1 != upper.start:
            raise InvalidArgumentException(
                f"Shards {shard.shard_id} and {adjacent.shard_id} in {self} "
                "are not an adjacent pair of shards eligible for merging"
            )
        self._reshard((shard, adjacent), (HashKeyRange(keys.start, upper.end),))

    def scale(self, shard_count: int) -> None:
        """Split and merge shards until `shard_count` open shards divide the hash keys evenly.

        Shards that cross a new boundary are split there, and the parts are merged. The parts remain in the
        list as short-lived closed shards.
        """
        targets = uniform_ranges(shard_count)
        for target in targets:
            holder = self.shard_for(target.start)
            if holder.hash_key_range.start != target.start:
                self.split(holder, target.start)
        for target in targets:
            while (lower := self.shard_for(target.start)).hash_key_range != target:
                self.merge(lower, self.shard_for(lower.hash_key_range.end + 1))

    def _reshard(self, parents: Sequence[Shard], ranges: Sequence[HashKeyRange]) -> None:
        for parent in parents:
            if parent.closed_at is not None:
                raise InvalidArgumentException(
                    f"Shard {parent.shard_id} in {self} has already been merged or split, "
                    "and thus is not eligible for merging or splitting."
                )
        now = self.clock.tick()
        for parent in parents:
            parent.close(now)
            self.open_shards.remove(parent)
        self._open(ranges, tuple(parent.shard_id for parent in parents), now)

    def _open(self, ranges: Sequence[HashKeyRange], parents: tuple[str, ...], now: int) -> None:
        era = self.clock.era()
        for hash_key_range in ranges:
            shard = Shard(self._shards_created, hash_key_range, era, now, parents)
            self._shards_created += 1
            self._shards[shard.shard_id] = shard
            self.open_shards.append(shard)
        self.open_shards.sort(key=_start)


@dataclass(eq=False)
class Consumer:
    """A registered consumer of a stream. Times are in milliseconds.

    A consumer that is registered again under the same name is another `Consumer` with another ARN.

    Attributes:
        active_at: When the consumer is created and can subscribe to shards.
        gone_at: When a consumer that was deregistered is deleted; None for a registered consumer.
        subscribed_at: The time of the last subscription to each shard, by shard id.
    """

    stream_arn: str
    name: str
    created_at: int
    active_at: int
    tags: dict[str, str]
    gone_at: int | None = None
    subscribed_at: dict[str, int] = field(default_factory=dict)

    @property
    def arn(self) -> str:
        """The ARN, which contains the creation time in seconds."""
        return f"{self.stream_arn}/consumer/{self.name}:{self.created_at // 1000}"

    def status(self, now: int) -> Literal["CREATING", "ACTIVE", "DELETING"]:
        """Return the status at a time."""
        if self.gone_at is not None:
            return "DELETING"
        return "ACTIVE" if now >= self.active_at else "CREATING"


class Consumers:
    """The consumers of a stream.

    Args:
        now: Returns the service's time in milliseconds.

    Attributes:
        delay: How long a new consumer is CREATING and a deregistered one DELETING, in milliseconds.
    """

    def __init__(self, stream_arn: str, now: Callable[[], int]) -> None:
        self.delay = 0
        self._stream_arn = stream_arn
        self._now = now
        self._by_name: dict[str, Consumer] = {}
        self._latest = 0

    def __len__(self) -> int:
        return len(self.all)

    @property
    def all(self) -> list[Consumer]:
        """All consumers by name, including those that are not active."""
        now = self._now()
        self._by_name = {
            name: self._by_name[name]
            for name in sorted(self._by_name)
            if (gone_at := self._by_name[name].gone_at) is None or now < gone_at
        }
        return list(self._by_name.values())

    def get(self, name: str) -> Consumer | None:
        """Return a consumer by name, if there is one."""
        return next((consumer for consumer in self.all if consumer.name == name), None)

    def register(self, name: str, tags: dict[str, str]) -> Consumer:
        """Add a consumer. The name must be free."""
        now = self._now()
        self._latest = max(now, self._latest + 1000)  # the ARN has the second, and a new consumer a new ARN
        consumer = Consumer(self._stream_arn, name, self._latest, now + self.delay, tags)
        self._by_name[name] = consumer
        return consumer

    def deregister(self, consumer: Consumer) -> None:
        """Remove a consumer, immediately or after the delay."""
        consumer.gone_at = self._now() + self.delay


class Clock:
    """A monotonic clock in milliseconds since the epoch, based on any source of seconds."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._latest = 0
        self._era = 0

    def now(self) -> int:
        """Return the current time, which is never earlier than a time returned before."""
        self._latest = max(self._latest, milliseconds(self._seconds()))
        return self._latest

    def tick(self) -> int:
        """Return a time later than every time returned before, so that it separates what is old and new."""
        self._latest = max(self._latest + 1, milliseconds(self._seconds()))
        return self._latest

    def era(self) -> int:
        """Return the second that new shards carry in their sequence numbers. Each call returns a larger one.

        Shards of a later era have larger sequence numbers than all shards of an earlier era. The era runs
        ahead of the clock if it is called several times within a second; clients cannot observe that.
        """
        self._era = max(self._era + 1, self.now() // 1000)
        return self._era
