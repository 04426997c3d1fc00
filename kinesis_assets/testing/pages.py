"""Layers for the pages of GetRecords."""

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
    """Empty pages; see `Faults.empty_page`."""

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
    """An answer without what follows the page; see `Faults.null_iterator`."""
    if answer.status != HTTPStatus.OK:
        return None
    left = {"NextShardIterator", "ChildShards"}
    members = {name: value for name, value in answer.members.items() if name not in left}
    return answer.with_body(json.dumps(members).encode())


def repeat(back: int) -> Layer:
    """Pages that begin so many records before a call's iterator; the next iterator is as it would be."""

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


def change_records(change: Callable[[list[Any]], list[Any]]) -> Layer:
    """Pages with other records."""

    async def changed(call: Call, downstream: Downstream) -> Answer:
        answer = await downstream(call)
        if answer.status != HTTPStatus.OK:
            return answer
        return answer.but(Records=change(answer.members["Records"]))

    return changed


def pad(above: int, size: int) -> Layer:
    """A body with so many more bytes, where a page has more than so many records."""

    async def padded(call: Call, downstream: Downstream) -> Answer:
        answer = await downstream(call)
        if answer.status != HTTPStatus.OK or len(answer.members["Records"]) <= above:
            return answer
        return answer.with_body(answer.body + b" " * size)

    return padded
