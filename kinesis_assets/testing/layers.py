"""Layers for calls of any operation."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kinesis_assets.testing.messages import Answer, Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.testing.fault_chain import Downstream, Layer


def refuse(status: int, code: str) -> Layer:
    """Refuse calls without carrying them out; see `Faults.fail`."""

    async def refused(_call: Call, _rest: Downstream) -> Answer:
        return Answer.error(code, status)

    return refused


def override(**way: Any) -> Layer:
    """Send answers in another way, by attributes of `Answer`."""

    async def sent_otherwise(call: Call, downstream: Downstream) -> Answer:
        return replace(await downstream(call), **way)

    return sent_otherwise


def change_answer(change: Callable[[Call, Answer], Answer | None]) -> Layer:
    """Change answers; see `Faults.answer`."""

    async def changed(call: Call, downstream: Downstream) -> Answer:
        answer = await downstream(call)
        instead = change(call, answer)
        return answer if instead is None else instead

    return changed


def change_arguments(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Layer:
    """Change arguments; see `Faults.request`."""

    async def changed(call: Call, downstream: Downstream) -> Answer:
        return await downstream(replace(call, arguments=change(dict(call.arguments))))

    return changed


def run_before(do: Callable[[], object]) -> Layer:
    """Do something first, in a thread; see `Faults.before`."""

    async def done_before(call: Call, downstream: Downstream) -> Answer:
        await asyncio.to_thread(do)
        return await downstream(call)

    return done_before
