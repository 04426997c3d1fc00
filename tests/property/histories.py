"""What can happen to a stream and to its runs, as data that print as the code that makes them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from moments import Moment


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
    """A record of so many times the data. What begins with the KPL's magic is a damaged aggregate."""

    key: str
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
    """A sound aggregate."""

    key: str
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


# Runs


@dataclass(frozen=True, repr=False)
class Bend(_AsCode):
    """A fault: a method of `Faults` and its arguments."""

    how: str
    arguments: dict[str, Any]


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
        threads: Threads of each task; 1 makes the order of calls certain.
        spare: Each task is run once more, before or after the attempt whose result counts.
        bends: Faults while it runs.
        moment: When `event` happens.
        event: What is raised in the middle of it, or another step that is taken there.
    """

    plan: int = 0
    asked: tuple[int, ...] | None = None
    max_records: int | None = None
    max_bytes: int | None = None
    run_records: int | None = None
    run_bytes: int | None = None
    max_bad_records: int | None = None
    tasks: int = 1
    threads: int = 1
    spare: Literal["before", "after"] | None = None
    bends: tuple[Bend, ...] = ()
    moment: Moment | None = None
    event: type[BaseException] | Step | None = None

    @property
    def may_fail(self) -> bool:
        """Whether something in it can make it fail as a whole, or shards of it."""
        if isinstance(self.event, Run) and self.event.plan:
            return True  # it may be this run's own plan
        harmless = {"empty_page", "page_size"}
        return isinstance(self.event, type) or any(bend.how not in harmless for bend in self.bends)


Step = Put | Split | Merge | Wait | Run


@dataclass(frozen=True, repr=False)
class History(_AsCode):
    """A stream of so many shards, first planned at `start`, and what happens then."""

    shards: int
    start: Literal["TRIM_HORIZON", "LATEST"]
    steps: tuple[Step, ...]
