"""The chain of faults: each fault is a layer around the next one, and the service is the innermost layer."""

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
    """The calls of an operation to which a fault applies.

    Attributes:
        stream: Only calls on this stream.
        shard_id: Only calls on this shard.
        after: The number of calls to let through first; 0 by default.
        times: The maximum number of calls to which the fault applies; no maximum by default.
    """

    stream: str
    shard_id: str
    after: int
    times: int


@dataclass(frozen=True)
class Downstream:
    """The inner layers of a fault: other faults, then the service.

    Attributes:
        faults: The faults of the inner layers, the outermost first.
        account: The caller's account.
        serve: Sends a call to the service and returns the response.
    """

    faults: Sequence[Fault]
    account: Account
    serve: Callable[[Call], Awaitable[Answer]]

    async def __call__(self, call: Call) -> Answer:
        """Send a call through the inner layers and return the response."""
        for number, fault in enumerate(self.faults, 1):
            if fault.matches(call):
                inner = self.faults[number:]
                if fault.exclusive:
                    inner = [each for each in inner if not each.exclusive]
                return await fault.layer(call, replace(self, faults=inner))
        return await self.serve(call)


Layer = Callable[[Call, Downstream], Awaitable[Answer]]


@dataclass
class Fault:
    """A layer and the calls to which it applies; see `CallFilter`.

    Attributes:
        exclusive: If the fault applies to a call, later exclusive faults neither apply to it nor count it.

    Raises:
        InvalidInput: The operation is unknown, or `after` or `times` is out of range.
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
            raise InvalidInput(
                f"after must be at least 0 and times at least 1, not {self.after} and {self.times}"
            )

    def matches(self, call: Call) -> bool:
        """Count a call and return whether the fault applies to it."""
        if (
            call.operation != self.operation
            or self.stream not in (None, call.stream)
            or self.shard_id not in (None, call.shard_id)
        ):
            return False
        number = next(self._numbers)
        return number > self.after and (self.times is None or number <= self.after + self.times)


def check_operation(operation: str) -> None:
    """Check the name of an operation.

    Raises:
        InvalidInput: The embedded stream does not have this operation.
    """
    if operation not in OPERATIONS:
        raise InvalidInput(f"unknown operation {operation!r}; use one of {', '.join(sorted(OPERATIONS))}")
