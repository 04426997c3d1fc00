"""How faults stack: each is a layer around the next, and the service is within them all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, TypedDict

from kinesis_assets.emulator.operations import OPERATIONS
from kinesis_assets.errors import InvalidInput
from kinesis_assets.testing.messages import Answer, Call

if TYPE_CHECKING:
    from kinesis_assets.emulator.account import Account


class CallFilter(TypedDict, total=False):
    """Which calls of an operation a fault takes, of those that come to it.

    Attributes:
        stream: Those on this stream alone.
        shard_id: Those on this shard alone.
        after: So many are let through first; 0 by default.
        times: At most so many are taken then; by default all.
    """

    stream: str
    shard_id: str
    after: int
    times: int


@dataclass(frozen=True)
class Downstream:
    """What is behind a fault: other faults, then the service.

    Attributes:
        faults: Those faults, the outermost first.
        account: The service's.
        serve: Lets the service answer.
    """

    faults: Sequence[Fault]
    account: Account
    serve: Callable[[Call], Awaitable[Answer]]

    async def __call__(self, call: Call) -> Answer:
        """The answer of all that."""
        for number, fault in enumerate(self.faults, 1):
            if fault.matches(call):
                behind = self.faults[number:]
                if fault.exclusive:
                    behind = [each for each in behind if not each.exclusive]
                return await fault.layer(call, replace(self, faults=behind))
        return await self.serve(call)


Layer = Callable[[Call, Downstream], Awaitable[Answer]]


@dataclass
class Fault:
    """A layer, and the calls that it is for; see `CallFilter`.

    Attributes:
        decides: It decides what becomes of a call, which no other such fault then sees or counts.

    Raises:
        InvalidInput: It would never take any call.
    """

    operation: str
    layer: Layer
    stream: str | None = None
    shard_id: str | None = None
    after: int = 0
    times: int | None = None
    exclusive: bool = False
    _numbers: Iterator[int] = field(default_factory=lambda: count(1), init=False, repr=False)

    def __post_init__(self) -> None:
        check_operation(self.operation)
        if self.after < 0 or (self.times is not None and self.times < 1):
            raise InvalidInput(f"after is 0 or more and times 1 or more, not {self.after} and {self.times}")

    def matches(self, call: Call) -> bool:
        """Whether the call is one of this fault's; it counts as seen."""
        if (
            call.operation != self.operation
            or self.stream not in (None, call.stream)
            or self.shard_id not in (None, call.shard_id)
        ):
            return False
        number = next(self._numbers)
        return number > self.after and (self.times is None or number <= self.after + self.times)


def check_operation(operation: str) -> None:
    """Let no misspelt operation through.

    Raises:
        InvalidInput: The embedded stream has no such operation.
    """
    if operation not in OPERATIONS:
        raise InvalidInput(f"{operation!r} is none of the operations {', '.join(sorted(OPERATIONS))}")
