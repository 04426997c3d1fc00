"""Histories of a stream and its runs as data, which print as the code that creates them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal


@dataclass(frozen=True, repr=False)
class _AsCode:
    """Prints as the code that creates it, without default values."""

    def __repr__(self) -> str:
        values = [(each.name, getattr(self, each.name), each.default) for each in fields(self)]
        arguments = [f"{name}={_code(value)}" for name, value, default in values if value != default]
        return f"{type(self).__name__}({', '.join(arguments)})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print for Hypothesis."""
        del cycle
        printer.text(repr(self))


def _code(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else repr(value)


# Records


@dataclass(frozen=True, repr=False)
class Plain(_AsCode):
    """A record with repeated data. Data that begins with the KPL's magic number is a damaged aggregate.

    The record has no partition key if the stream does not require one.
    """

    key: str | None
    data: bytes = b""
    times: int = 1


@dataclass(frozen=True, repr=False)
class Sub(_AsCode):
    """A sub-record. Its explicit hash key, if any, is at an edge of its shard's range."""

    key: str
    data: bytes = b""
    at: Literal["first", "last", "before", "after"] | None = None


@dataclass(frozen=True, repr=False)
class Aggregate(_AsCode):
    """A sound aggregate. Its record has no partition key if the stream does not require one."""

    key: str | None
    subs: tuple[Sub, ...]


@dataclass(frozen=True, repr=False)
class Put(_AsCode):
    """One PutRecords call."""

    records: tuple[Plain | Aggregate, ...]
    failing: int | None = None


# Other steps of the stream


@dataclass(frozen=True, repr=False)
class Split(_AsCode):
    """Split an open shard at a part of its range. Shards are counted by hash keys, modulo their number."""

    shard: int = 0
    percent: int = 50


@dataclass(frozen=True, repr=False)
class Merge(_AsCode):
    """Merge an open shard with the next one."""

    shard: int = 0


@dataclass(frozen=True, repr=False)
class Wait(_AsCode):
    """Advance the service's clock."""

    seconds: int


@dataclass(frozen=True, repr=False)
class Distribute(_AsCode):
    """Switch an on-demand stream to the strategy AUTO, or back to partition keys."""

    auto: bool = True


@dataclass(frozen=True, repr=False)
class Maintain(_AsCode):
    """Maintenance with a retention of a day on a machine whose clock is hours ahead; it is refused."""

    hours: int


# Other steps of the table


@dataclass(frozen=True, repr=False)
class Restore(_AsCode):
    """RESTORE the table to an earlier version, as another engine or an operator does."""

    back: int = 1


@dataclass(frozen=True, repr=False)
class Recover(_AsCode):
    """The documented recovery from that: a replay, then an adoption.

    Attributes:
        events: What happens during the recovery, which is then repeated.
    """

    events: tuple[Event, ...] = ()


# Runs


@dataclass(frozen=True, repr=False)
class ServiceFault(_AsCode):
    """A fault of the service: a method of `Faults` and its arguments."""

    method: str
    arguments: dict[str, Any]


@dataclass(frozen=True, repr=False)
class Event(_AsCode):
    """Something that happens during a run.

    Attributes:
        call: The intercepted call: see `INTERCEPTED_CALLS`.
        effect: The error to raise, or another step to execute.
        nth: The number of the call, from 0.
        after: Whether it happens after the call, so that the response is lost if an error is raised.
        times: The number of consecutive calls.
    """

    call: str
    effect: type[BaseException] | Step
    nth: int = 0
    after: bool = False
    times: int = 1


@dataclass(frozen=True, repr=False)
class Run(_AsCode):
    """Plan and execute a run; by default of all shards, without bounds.

    Attributes:
        plan: 0 for a new plan; otherwise an earlier plan to execute, where 1 is the last one.
        asked: The listed shards to read, by index modulo their number.
        max_records: The bound of a shard.
        max_bytes: The bound of a shard.
        run_records: The bound of the run.
        run_bytes: The bound of the run.
        max_bad_records: The bound of a shard.
        tasks: The number of tasks.
        calls_at_once: The concurrent calls of each task; 1 makes their order deterministic.
        speculative: Run each task once more, before or after the attempt whose result is used.
        faults: The faults during the run.
        events: What happens during the run.
    """

    plan: int = 0
    asked: tuple[int, ...] | None = None
    max_records: int | None = None
    max_bytes: int | None = None
    run_records: int | None = None
    run_bytes: int | None = None
    max_bad_records: int | None = None
    tasks: int = 1
    calls_at_once: int = 1
    speculative: Literal["before", "after"] | None = None
    faults: tuple[ServiceFault, ...] = ()
    events: tuple[Event, ...] = ()

    @property
    def may_fail(self) -> bool:
        """Whether the run may fail, or shards of it for unusual reasons."""
        harmless = {"empty_page", "page_size"}
        # A run during this one that executes an older plan may execute this one's.
        grave = (isinstance(event.effect, type) or getattr(event.effect, "plan", 0) for event in self.events)
        return any(grave) or any(fault.method not in harmless for fault in self.faults)

    @property
    def waits(self) -> bool:
        """Whether the service's clock advances during the run, so that two responses may disagree."""
        return any(isinstance(event.effect, Wait) for event in self.events)

    @property
    def is_restored(self) -> bool:
        """Whether the table is restored during the run."""
        return any(isinstance(event.effect, Restore) for event in self.events)

    @property
    def races(self) -> bool:
        """Whether another run happens during the run."""
        return any(isinstance(event.effect, Run) for event in self.events)


Step = Put | Split | Merge | Wait | Distribute | Maintain | Restore | Recover | Run


@dataclass(frozen=True, repr=False)
class History(_AsCode):
    """A stream, and the steps that happen to it.

    Attributes:
        on_demand: Whether the stream is on-demand, so that the service reshards it.
        old_table: Whether a Delta table is of a release that required partition keys.
    """

    shards: int
    start: Literal["TRIM_HORIZON", "LATEST"]
    steps: tuple[Step, ...]
    on_demand: bool = False
    old_table: bool = False
