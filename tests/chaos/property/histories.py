"""What can happen to a stream and to its runs, as data that print as the code that makes them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal


@dataclass(frozen=True, repr=False)
class _AsCode:
    """Prints as the code that makes it, without what is as by default."""

    def __repr__(self) -> str:
        told = [(each.name, getattr(self, each.name), each.default) for each in fields(self)]
        arguments = [f"{name}={_code(value)}" for name, value, default in told if value != default]
        return f"{type(self).__name__}({', '.join(arguments)})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """As Hypothesis prints it."""
        del cycle
        printer.text(repr(self))


def _code(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else repr(value)


# What is put


@dataclass(frozen=True, repr=False)
class Plain(_AsCode):
    """A record of so many times the data. What begins with the KPL's magic is a damaged aggregate.

    It has no key where the stream does not need one.
    """

    key: str | None
    data: bytes = b""
    times: int = 1


@dataclass(frozen=True, repr=False)
class Sub(_AsCode):
    """A sub-record. Its explicit hash key, if any, is at an edge of the range of the shard it comes to."""

    key: str
    data: bytes = b""
    at: Literal["first", "last", "before", "after"] | None = None


@dataclass(frozen=True, repr=False)
class Aggregate(_AsCode):
    """A sound aggregate. Its record has no key where the stream does not need one."""

    key: str | None
    subs: tuple[Sub, ...]


@dataclass(frozen=True, repr=False)
class Put(_AsCode):
    """One PutRecords; of `failing`, every such one is refused."""

    records: tuple[Plain | Aggregate, ...]
    failing: int | None = None


# What else becomes of the stream


@dataclass(frozen=True, repr=False)
class Split(_AsCode):
    """Split one of the open shards, counted by hash keys and around, at a part of its range."""

    shard: int = 0
    percent: int = 50


@dataclass(frozen=True, repr=False)
class Merge(_AsCode):
    """Merge one of the open shards with the next one."""

    shard: int = 0


@dataclass(frozen=True, repr=False)
class Wait(_AsCode):
    """The service's clock moves on."""

    seconds: int


@dataclass(frozen=True, repr=False)
class Distribute(_AsCode):
    """Switch an on-demand stream to the strategy AUTO, or back to partition keys."""

    auto: bool = True


@dataclass(frozen=True, repr=False)
class Maintain(_AsCode):
    """Maintenance with a retention of a day, by a machine's clock that is so many hours ahead: refused."""

    hours: int


# What else becomes of the table


@dataclass(frozen=True, repr=False)
class Restore(_AsCode):
    """RESTORE to so many versions before, as another engine or an operator does it."""

    back: int = 1


@dataclass(frozen=True, repr=False)
class Recover(_AsCode):
    """The documented way out of that: a replay, then an adoption.

    Attributes:
        events: What happens in the middle of it; it is done again then.
    """

    events: tuple[Event, ...] = ()


# Runs


@dataclass(frozen=True, repr=False)
class Bend(_AsCode):
    """A fault: a method of `Faults` and its arguments."""

    how: str
    arguments: dict[str, Any]


@dataclass(frozen=True, repr=False)
class Event(_AsCode):
    """Something in the middle of a run.

    Attributes:
        seam: At which of its calls; see `SEAMS`.
        what: What is raised there, or another step that is taken there.
        nth: At which call of that seam, from 0.
        after: After the call was carried out, so that its answer is lost if something is raised.
        times: At so many calls one after another.
    """

    seam: str
    what: type[BaseException] | Step
    nth: int = 0
    after: bool = False
    times: int = 1


@dataclass(frozen=True, repr=False)
class Run(_AsCode):
    """Plan and execute; all shards and no bounds by default.

    Attributes:
        plan: 0 plans anew; else one of the plans made before is executed (again), 1 being the last.
        asked: Which of the listed shards, counted around.
        max_records: A shard's bound.
        max_bytes: A shard's bound.
        run_records: The run's bound.
        run_bytes: The run's bound.
        max_bad_records: A shard's bound.
        tasks: Tasks of each landing.
        calls_at_once: Of each task; 1 makes the order of calls certain.
        spare: Each task is run once more, before or after the attempt whose result counts.
        bends: Faults while it runs.
        events: What happens in the middle of it.
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
    spare: Literal["before", "after"] | None = None
    bends: tuple[Bend, ...] = ()
    events: tuple[Event, ...] = ()

    @property
    def may_fail(self) -> bool:
        """Whether it may fail as a whole, or shards of it but for the usual reasons."""
        harmless = {"empty_page", "page_size"}
        # A run in the middle of it that takes an older plan may take its own.
        grave = (isinstance(event.what, type) or getattr(event.what, "plan", 0) for event in self.events)
        return any(grave) or any(bend.how not in harmless for bend in self.bends)

    @property
    def is_restored(self) -> bool:
        """Whether the table is restored in the middle of it."""
        return any(isinstance(event.what, Restore) for event in self.events)

    @property
    def races(self) -> bool:
        """Whether another run is in the middle of it."""
        return any(isinstance(event.what, Run) for event in self.events)


Step = Put | Split | Merge | Wait | Distribute | Maintain | Restore | Recover | Run


@dataclass(frozen=True, repr=False)
class History(_AsCode):
    """A stream of so many shards, first planned at `start`, and what happens then.

    Attributes:
        on_demand: Its capacity mode; a reshard is the service's own then.
        old_table: Its table is that of a release that knew no records without a key.
    """

    shards: int
    start: Literal["TRIM_HORIZON", "LATEST"]
    steps: tuple[Step, ...]
    on_demand: bool = False
    old_table: bool = False
