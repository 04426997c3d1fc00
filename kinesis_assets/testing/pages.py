"""Pages of GetRecords that the service must not give."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from msgspec import structs

from kinesis_assets.emulator import iterators

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.testing.fault_chain import Rest
    from kinesis_assets.testing.messages import Answer, Call


async def repeated(call: Call, rest: Rest, back: int) -> Answer:
    """The page that begins so many records before a call's iterator; the next iterator is as it would be."""
    answer = await rest(call)
    if answer.status != HTTPStatus.OK:
        return answer
    here = iterators.decode(call.arguments["ShardIterator"], iterators.ShardPosition, now=0)
    before = structs.replace(here, issued_at=rest.account.clock.now(), position=max(0, here.position - back))
    again = await rest(replace(call, arguments={**call.arguments, "ShardIterator": iterators.encode(before)}))
    return again if again.status != HTTPStatus.OK else answer.but(Records=again.members["Records"])


def changed(answer: Answer, change: Callable[[list[Any]], list[Any]]) -> Answer:
    """An answer with other records, if it is a page."""
    if answer.status != HTTPStatus.OK:
        return answer
    return answer.but(Records=change(answer.members["Records"]))


def padded(answer: Answer, above: int, size: int) -> Answer:
    """An answer whose body has so many more bytes, if it is a page of more than so many records."""
    if answer.status != HTTPStatus.OK or len(answer.members["Records"]) <= above:
        return answer
    return answer.with_body(answer.body + b" " * size)
