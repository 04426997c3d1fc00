"""Consumers with enhanced fan-out, which are registered with a stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

ConsumerStatus = Literal["CREATING", "ACTIVE", "DELETING"]


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

    def status(self, now: int) -> ConsumerStatus:
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
