"""Fault layers for any operation."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kinesis_assets.emulator.operations.listing import PAGE_SHARDS
from kinesis_assets.emulator.shards import PAGE_RECORDS
from kinesis_assets.errors import InvalidInput
from kinesis_assets.testing.messages import Answer, Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.testing.fault_chain import Downstream, Layer


_PAGE_SIZES = {"GetRecords": ("Limit", PAGE_RECORDS), "ListShards": ("MaxResults", PAGE_SHARDS)}


def refuse(status: int, code: str) -> Layer:
    """Return an error without carrying out the call; see `Faults.fail`."""

    async def refused(_call: Call, _rest: Downstream) -> Answer:
        return Answer.error(code, status)

    return refused


def override(**attributes: Any) -> Layer:
    """Set attributes of responses; see `Answer`."""

    async def overridden(call: Call, downstream: Downstream) -> Answer:
        return replace(await downstream(call), **attributes)

    return overridden


def change_answer(change: Callable[[Call, Answer], Answer | None]) -> Layer:
    """Change responses; see `Faults.answer`."""

    async def changed(call: Call, downstream: Downstream) -> Answer:
        answer = await downstream(call)
        replacement = change(call, answer)
        return answer if replacement is None else replacement

    return changed


def change_arguments(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Layer:
    """Change the arguments of calls; see `Faults.request`."""

    async def changed(call: Call, downstream: Downstream) -> Answer:
        return await downstream(replace(call, arguments=change(dict(call.arguments))))

    return changed


def limit_page(operation: str, most: int) -> Layer:
    """Limit the size of pages; see `Faults.page_size`.

    Raises:
        InvalidInput: The operation has no pages of records or shards.
    """
    if operation not in _PAGE_SIZES:
        raise InvalidInput(f"{operation} has no page size; use one of {', '.join(_PAGE_SIZES)}")
    name, default = _PAGE_SIZES[operation]
    return change_arguments(lambda arguments: {**arguments, name: min(arguments.get(name, default), most)})


def run_before(action: Callable[[], object]) -> Layer:
    """Run an action in a thread before the call is carried out; see `Faults.before`."""

    async def preceded(call: Call, downstream: Downstream) -> Answer:
        await asyncio.to_thread(action)
        return await downstream(call)

    return preceded
