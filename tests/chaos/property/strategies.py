"""Strategies for random histories. They shrink to few steps, without bounds and faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from chaos.property.histories import (
    Aggregate,
    Distribute,
    Event,
    History,
    Maintain,
    Merge,
    Plain,
    Put,
    Recover,
    Restore,
    Run,
    ServiceFault,
    Split,
    Sub,
    Wait,
)
from chaos.property.interceptor import FAILURES, INTERCEPTED_CALLS
from kinesis_assets.kinesis.records.aggregation import MAGIC
from kinesis_assets.testing import UserRecord, aggregate

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from chaos.property.histories import Step


def _some(*weighted: tuple[int, SearchStrategy[Any]]) -> SearchStrategy[Any]:
    """Draw from one of the strategies by weight. Failures shrink to the first ones."""
    return st.sampled_from([each for weight, each in weighted for _ in range(weight)]).flatmap(
        lambda each: each
    )


def _rarely(strategy: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return _some((3, st.none()), (1, strategy))


LONG = 1 << 17
"""Bytes that are more than a response may have here."""

_KPL = aggregate([UserRecord("a", b"1"), UserRecord("b", b"2")])
_UNSOUND = [MAGIC, _KPL[:-1], _KPL[:6] + b"?" + _KPL[7:], _KPL + b"?"]

_keys = st.sampled_from(["a", "b", "c", "d", "e", "\N{SNOWMAN}", "k" * 256])
_record_keys = _some((5, _keys), (2, st.none()))
_data = st.binary(max_size=6)
_plain = st.builds(Plain, _record_keys, _data, st.sampled_from([1, 1, 1, 500]))
_damaged = st.builds(Plain, _record_keys, st.sampled_from(_UNSOUND) | _data.map(MAGIC.__add__))
_sub = st.builds(Sub, _keys, _data, _rarely(st.sampled_from(["first", "last", "before", "after"])))
_sound = st.builds(Aggregate, _record_keys, st.lists(_sub, min_size=1, max_size=6).map(tuple))

_puts = st.builds(
    Put,
    st.lists(_some((4, _plain), (3, _sound), (1, _damaged)), min_size=1, max_size=8).map(tuple),
    _rarely(st.integers(1, 3)),
)
_reshards = st.builds(Split, st.integers(0, 5), st.integers(1, 99)) | st.builds(Merge, st.integers(0, 5))
_waits = st.builds(Wait, st.sampled_from([1, 301, 3600, 43_200]))
_distributes = st.builds(Distribute, st.sampled_from([True, True, False]))
_changes = _some((4, _puts), (2, _reshards), (1, _waits), (1, _distributes))
_between = _some((12, _changes), (1, st.builds(Maintain, st.sampled_from([2, -2, 8760, -8760]))))

_shard_ids = _rarely(st.sampled_from([f"shardId-{number:012}" for number in range(4)]))
_filter = {"after": st.integers(0, 3), "times": st.integers(1, 7), "shard_id": _shard_ids}
_reads = st.sampled_from(["GetRecords", "GetRecords", "GetRecords", "GetShardIterator"])
_calls = st.sampled_from(
    ["GetRecords", "GetRecords", "GetShardIterator", "ListShards", "DescribeStreamSummary"]
)


def _fault(method: str, **arguments: SearchStrategy[Any]) -> SearchStrategy[ServiceFault]:
    def fault(chosen: dict[str, Any]) -> ServiceFault:
        return ServiceFault(method, {name: value for name, value in chosen.items() if value is not None})

    return st.fixed_dictionaries(arguments).map(fault)


_faults = st.one_of(
    _fault("empty_page", **_filter),
    _fault("page_size", most=st.integers(1, 3)),
    _fault("page_size", operation=st.just("ListShards"), most=st.integers(1, 2)),
    _fault("expire", **_filter),
    _fault("throttle", operation=_reads, **_filter),
    _fault("fail", operation=_calls, **_filter),
    _fault("fail", operation=_reads, code=st.just("AccessDeniedException"), status=st.just(400), **_filter),
    _fault("reset", operation=_calls, **_filter),
    _fault("repeat_page", back=st.integers(1, 4), **_filter),
    _fault("reverse_page", **_filter),
    _fault("wrong_arrival", seconds=st.sampled_from([1e20, -1e20]), **_filter),
    _fault("long_page", above=st.integers(0, 3), size=st.just(LONG), **_filter),
    _fault("cut_body", operation=_calls, on_wire=st.booleans(), **_filter),
    _fault("null_iterator", **_filter),
    _fault("stale_list", reshards=st.integers(1, 3), after=st.integers(0, 1), times=st.integers(1, 7)),
    *(
        _fault(
            "skew_date",
            seconds=st.sampled_from([-days * 86_400, days * 86_400]),
            operation=st.just(call),
            **_filter,
        )
        # Each is wrong by another number of days, so that no two wrong dates agree.
        for call, days in [
            ("GetRecords", 400),
            ("GetShardIterator", 800),
            ("ListShards", 1200),
            ("DescribeStreamSummary", 1600),
        ]
    ),
)


def _is_detectable(faults: tuple[ServiceFault, ...]) -> bool:
    """Return whether no page is both empty although records follow and the end of its shard.

    No reader could detect that.
    """
    return not {fault.method for fault in faults} >= {"empty_page", "null_iterator"}


_bound = st.integers(1, 8)
_bytes = st.integers(1, 40)
_bounds = _some(
    (4, st.just({})),
    (2, st.fixed_dictionaries({"max_records": _bound})),
    (1, st.fixed_dictionaries({"max_bytes": _bytes})),
    (1, st.fixed_dictionaries({"run_records": _bound})),
    (1, st.fixed_dictionaries({"run_bytes": _bytes})),
    (1, st.fixed_dictionaries({"max_bad_records": st.integers(0, 2)})),
    (
        1,
        st.fixed_dictionaries(
            {},
            optional={
                "max_records": _bound,
                "max_bytes": _bytes,
                "run_records": _bound,
                "run_bytes": _bytes,
                "max_bad_records": st.integers(0, 2),
            },
        ),
    ),
)
_some_shards = st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple)


def _runs(**fields: SearchStrategy[Any]) -> SearchStrategy[Run]:
    usual = {
        "plan": st.sampled_from([0] * 8 + [1, 2, 3]),
        "asked": _rarely(_some_shards),
        "tasks": st.sampled_from([1, 1, 1, 2, 3]),
        "calls_at_once": st.sampled_from([1, 1, 1, 16]),
        "speculative": _rarely(st.sampled_from(["before", "after"])),
    }
    return st.tuples(_bounds, st.fixed_dictionaries(usual | fields)).map(
        lambda both: Run(**both[0], **both[1])
    )


_asked_often = st.none() | _some_shards
_failures = st.sampled_from(FAILURES)
_other_runs = _runs(asked=_asked_often)


def _events(effect: SearchStrategy[Any], times: SearchStrategy[int]) -> SearchStrategy[Event]:
    call = st.sampled_from([*INTERCEPTED_CALLS, "commit", "commit", "describe", "page", "page"])
    return st.builds(Event, call, effect, st.sampled_from([0, 0, 0, 1, 1, 2, 3]), st.booleans(), times)


_failing = _events(_failures, st.sampled_from([1] * 10 + [2, 50]))
_racing = _events(_other_runs, st.sampled_from([1, 1, 1, 2]))
_changing = _events(_changes, st.just(1))

_all_runs = _some(
    (2, _runs()),
    (3, _runs(faults=st.lists(_faults, min_size=1, max_size=3).map(tuple).filter(_is_detectable))),
    (3, _runs(events=st.tuples(_failing))),
    (3, _runs(asked=_asked_often, events=st.tuples(_racing))),
    (1, _runs(events=st.tuples(_changing))),
    (1, _runs(asked=_asked_often, events=st.tuples(_racing, _failing | _changing))),
)


_restores = st.builds(Restore, st.integers(1, 12))
_restoring = _events(_restores, st.just(1))
_restored_runs = _runs(events=st.tuples(_restoring))
_recovers = st.builds(Recover, _some((1, st.just(())), (2, st.tuples(_failing)), (1, st.tuples(_restoring))))

_changed = st.lists(_between, min_size=1, max_size=3)
_rounds = st.tuples(_changed, _all_runs).map(lambda each: [*each[0], each[1]])
_restored = st.tuples(_restores | _restored_runs, _changed, _all_runs, _recovers, _all_runs).map(
    lambda each: [each[0], *each[1], *each[2:]]
)


def _flat(rounds: list[list[Step]]) -> tuple[Step, ...]:
    return tuple(step for steps in rounds for step in steps)


histories = st.builds(
    History,
    shards=st.sampled_from([1, 2, 2, 3, 3]),
    start=st.sampled_from(["TRIM_HORIZON", "TRIM_HORIZON", "TRIM_HORIZON", "LATEST"]),
    steps=st.lists(_some((9, _rounds), (1, _restored)), min_size=1, max_size=7).map(_flat),
    on_demand=st.sampled_from([False, False, True]),
    old_table=st.sampled_from([False, False, True]),
)
