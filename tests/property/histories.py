"""Histories of a stream and of its runs, as data: they print as the code that makes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from hypothesis import strategies as st
from moments import SEAMS, DiskFailed, Killed, LogFailed, Moment

from kinesis_assets.kinesis.aggregation import MAGIC
from kinesis_assets.testing import UserRecord, aggregate

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

# What is put


@dataclass(frozen=True)
class Plain:
    """A record of so many times the data. What begins with the KPL's magic is a damaged aggregate."""

    key: str
    data: bytes = b""
    times: int = 1


@dataclass(frozen=True)
class Sub:
    """A sub-record. Its explicit hash key, if any, is at an edge of the range of the shard that it comes to."""

    key: str
    data: bytes = b""
    at: Literal["first", "last", "before", "after"] | None = None


@dataclass(frozen=True)
class Aggregate:
    """A sound aggregate."""

    key: str
    subs: tuple[Sub, ...]


@dataclass(frozen=True)
class Put:
    """One PutRecords; of `failing`, every such one is refused."""

    records: tuple[Plain | Aggregate, ...]
    failing: int | None = None


# What else becomes of the stream


@dataclass(frozen=True)
class Split:
    """Split one of the open shards, counted by hash keys and around, at a part of its range."""

    shard: int = 0
    percent: int = 50


@dataclass(frozen=True)
class Merge:
    """Merge one of the open shards with the next one."""

    shard: int = 0


@dataclass(frozen=True)
class Wait:
    """The service's clock moves on."""

    seconds: int


# Runs


@dataclass(frozen=True)
class Bend:
    """A fault: a method of `Faults` and its arguments."""

    how: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """Plan and execute; all shards and no bounds by default.

    Attributes:
        plan: 0 plans anew; otherwise that one of the plans made before, the last being 1, is executed (again).
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


@dataclass(frozen=True)
class History:
    """A stream of so many shards, first planned at `start`, and what happens then."""

    shards: int
    start: Literal["TRIM_HORIZON", "LATEST"]
    steps: tuple[Step, ...]


# All of it at random


def _some(*weighted: tuple[int, SearchStrategy[Any]]) -> SearchStrategy[Any]:
    """One of the strategies, the more often the higher its weight; failures shrink to the first ones."""
    return st.sampled_from([each for weight, each in weighted for _ in range(weight)]).flatmap(lambda each: each)


def _rarely(strategy: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return _some((3, st.none()), (1, strategy))


_KPL = aggregate([UserRecord("a", b"1"), UserRecord("b", b"2")])
_UNSOUND = [MAGIC, _KPL[:-1], _KPL[:8] + b"?" + _KPL[9:], _KPL + b"?"]

_keys = st.sampled_from(["a", "b", "c", "d", "e", "\N{SNOWMAN}", "k" * 256])
_data = st.binary(max_size=6)
_plain = st.builds(Plain, _keys, _data, st.sampled_from([1, 1, 1, 500]))
_damaged = st.builds(Plain, _keys, st.sampled_from(_UNSOUND) | _data.map(MAGIC.__add__))
_sub = st.builds(Sub, _keys, _data, _rarely(st.sampled_from(["first", "last", "before", "after"])))
_sound = st.builds(Aggregate, _keys, st.lists(_sub, min_size=1, max_size=6).map(tuple))

_puts = st.builds(
    Put,
    st.lists(_some((4, _plain), (3, _sound), (1, _damaged)), min_size=1, max_size=8).map(tuple),
    _rarely(st.integers(1, 3)),
)
_reshards = st.builds(Split, st.integers(0, 5), st.integers(1, 99)) | st.builds(Merge, st.integers(0, 5))
_waits = st.builds(Wait, st.sampled_from([1, 301, 3600, 43_200]))
_changes = _some((4, _puts), (2, _reshards), (1, _waits))

_shard_ids = _rarely(st.sampled_from([f"shardId-{number:012}" for number in range(4)]))
_which = {"after": st.integers(0, 3), "times": st.integers(1, 7), "shard_id": _shard_ids}
_reads = st.sampled_from(["GetRecords", "GetRecords", "GetRecords", "GetShardIterator"])
_calls = st.sampled_from(["GetRecords", "GetRecords", "GetShardIterator", "ListShards", "DescribeStreamSummary"])


def _bend(how: str, **arguments: SearchStrategy[Any]) -> SearchStrategy[Bend]:
    def bend(chosen: dict[str, Any]) -> Bend:
        return Bend(how, {name: value for name, value in chosen.items() if value is not None})

    return st.fixed_dictionaries(arguments).map(bend)


_bends = st.one_of(
    _bend("empty_page", **_which),
    _bend("page_size", most=st.integers(1, 3)),
    _bend("page_size", operation=st.just("ListShards"), most=st.integers(1, 2)),
    _bend("expire", **_which),
    _bend("throttle", operation=_reads, **_which),
    _bend("fail", operation=_calls, **_which),
    _bend("fail", operation=_reads, code=st.just("AccessDeniedException"), status=st.just(400), **_which),
    _bend("reset", operation=_calls, **_which),
    _bend("cut_body", operation=_calls, on_wire=st.booleans(), **_which),
)

_bound = st.integers(1, 8)
_bytes = st.integers(1, 40)
_bounds = _some(
    (4, st.just({})),
    (2, st.fixed_dictionaries({"max_records": _bound})),
    (1, st.fixed_dictionaries({"max_bytes": _bytes})),
    (1, st.fixed_dictionaries({"run_records": _bound})),
    (1, st.fixed_dictionaries({"run_bytes": _bytes})),
    (1, st.fixed_dictionaries({"max_bad_records": st.integers(0, 2)})),
    (1, st.fixed_dictionaries({}, optional={
        "max_records": _bound, "max_bytes": _bytes, "run_records": _bound, "run_bytes": _bytes,
        "max_bad_records": st.integers(0, 2),
    })),
)
_asked = _rarely(st.lists(st.integers(0, 7), min_size=1, max_size=3).map(tuple))


def _runs(**fields: SearchStrategy[Any]) -> SearchStrategy[Run]:
    usual = {
        "plan": st.sampled_from([0] * 8 + [1, 2, 3]),
        "asked": _asked,
        "tasks": st.sampled_from([1, 1, 1, 2, 3]),
        "threads": st.sampled_from([1, 1, 1, 16]),
        "spare": _rarely(st.sampled_from(["before", "after"])),
    }
    return st.tuples(_bounds, st.fixed_dictionaries(usual | fields)).map(lambda both: Run(**both[0], **both[1]))


_nth = st.sampled_from([0, 0, 0, 1, 1, 2, 3])
_seams = st.sampled_from([*SEAMS, "commit", "commit", "describe", "page", "page"])
_calm_runs = _runs()
_bent_runs = _runs(bends=st.lists(_bends, min_size=1, max_size=3).map(tuple))
_failing_runs = _runs(
    moment=st.builds(Moment, _seams, _nth, st.booleans(), st.sampled_from([1] * 10 + [2, 50])),
    event=st.sampled_from([Killed, DiskFailed, LogFailed]),
)
_interrupted_runs = _runs(
    moment=st.builds(Moment, _seams, _nth, st.booleans()), event=_some((3, _calm_runs), (1, _changes))
)
_all_runs = _some((1, _calm_runs), (1, _bent_runs), (1, _failing_runs), (1, _interrupted_runs))


def _flat(rounds: list[tuple[list[Step], Run]]) -> tuple[Step, ...]:
    return tuple(step for changes, run in rounds for step in (*changes, run))


histories = st.builds(
    History,
    shards=st.integers(1, 3),
    start=st.sampled_from(["TRIM_HORIZON", "TRIM_HORIZON", "TRIM_HORIZON", "LATEST"]),
    steps=st.lists(st.tuples(st.lists(_changes, min_size=1, max_size=3), _all_runs), min_size=1, max_size=7).map(_flat),
)
