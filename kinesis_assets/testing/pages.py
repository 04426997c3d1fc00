"""Fault layers for pages of GetRecords."""

from __future__ import annotations

import json
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from msgspec import structs

from kinesis_assets.emulator import iterators

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.testing.fault_chain import Downstream, Layer
    from kinesis_assets.testing.messages import Answer, Call


def empty(behind_ms: int) -> Layer:
    """Return empty pages; see `Faults.empty_page`."""

    async def emptied(call: Call, downstream: Downstream) -> Answer:
        answer = await downstream(call)
        if answer.status != HTTPStatus.OK:
            return answer
        here = iterators.decode(call.arguments["ShardIterator"], iterators.ShardPosition, now=0)
        again = structs.replace(here, issued_at=downstream.account.clock.now())
        page = {
            "Records": [],
            "NextShardIterator": iterators.encode(again),
            "MillisBehindLatest": behind_ms,
        }
        return answer.with_body(json.dumps(page).encode())

    return emptied


def without_next_iterator(_call: Call, answer: Answer) -> Answer | None:
    """Remove the next iterator and the child shards; see `Faults.null_iterator`."""
    if answer.status != HTTPStatus.OK:
        return None
    removed = {"NextShardIterator", "ChildShards"}
    members = {name: value for name, value in answer.members.items() if name not in removed}
    return answer.with_body(json.dumps(members).encode())


def repeat(back: int) -> Layer:
    """Return pages that start `back` records before the iterator, with the regular next iterator."""

    async def repeated(call: Call, downstream: Downstream) -> Answer:
        answer = await downstream(call)
        if answer.status != HTTPStatus.OK:
            return answer
        here = iterators.decode(call.arguments["ShardIterator"], iterators.ShardPosition, now=0)
        before = structs.replace(
            here, issued_at=downstream.account.clock.now(), position=max(0, here.position - back)
        )
        again = await downstream(
            replace(call, arguments={**call.arguments, "ShardIterator": iterators.encode(before)})
        )
        return again if again.status != HTTPStatus.OK else answer.but(Records=again.members["Records"])

    return repeated


def reverse() -> Layer:
    """Return records in reverse order; see `Faults.reverse_page`."""
    return _change_records(lambda records: records[::-1])


def set_last_arrival(seconds: float) -> Layer:
    """Change the arrival time of a page's last record; see `Faults.wrong_arrival`."""
    arrival = {"ApproximateArrivalTimestamp": seconds}
    return _change_records(lambda records: [*records[:-1], *(record | arrival for record in records[-1:])])


def _change_records(change: Callable[[list[Any]], list[Any]]) -> Layer:

    async def changed(call: Call, downstream: Downstream) -> Answer:
        answer = await downstream(call)
        if answer.status != HTTPStatus.OK:
            return answer
        return answer.but(Records=change(answer.members["Records"]))

    return changed


def pad(above: int, size: int) -> Layer:
    """Append `size` blanks to the body of pages with more than `above` records."""

    async def padded(call: Call, downstream: Downstream) -> Answer:
        answer = await downstream(call)
        if answer.status != HTTPStatus.OK or len(answer.members["Records"]) <= above:
            return answer
        return answer.with_body(answer.body + b" " * size)

    return padded
