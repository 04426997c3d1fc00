"""Faults of event streams as layers around SubscribeToShard.

Most of them apply after a number of events with records; see `Faults`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kinesis_assets.emulator.event_stream import Frame, Frames
from kinesis_assets.testing.exchange import NOT_THE_SERVICE, ConnectionReset

if TYPE_CHECKING:
    from kinesis_assets.testing.exchange import Answer, Call, Downstream, Layer


Change = Callable[[Frames], Frames]


def change_frames(change: Change) -> Layer:
    """Change the frames of subscriptions."""

    async def changed(call: Call, downstream: Downstream) -> Answer:
        answer = await downstream(call)
        return answer if answer.frames is None else replace(answer, frames=_closing(answer.frames))

    async def _closing(frames: Frames) -> Frames:
        async with aclosing(frames), aclosing(change(frames)) as changed:
            async for frame in changed:
                yield frame

    return changed


def event_members(frame: Frame) -> dict[str, Any] | None:
    """Return the members of an event; None if the frame is the initial response or an exception."""
    if frame.kind != "SubscribeToShardEvent":
        return None
    members: dict[str, Any] = json.loads(frame.payload)
    return members


def stop(events: int) -> Change:
    """Send no more frames; see `Faults.stop_events`."""

    async def stopped(frames: Frames) -> Frames:
        async for number, frame in _numbered(frames):
            yield frame
            if (number or 0) >= events:
                await asyncio.Event().wait()

    return stopped


def reset(events: int) -> Change:
    """Reset the connection; see `Faults.reset_events`."""

    async def reset_after(frames: Frames) -> Frames:
        async for number, frame in _numbered(frames):
            yield frame
            if (number or 0) >= events:
                raise ConnectionReset

    return reset_after


def fail(events: int, code: str) -> Change:
    """End with an exception; see `Faults.fail_events`."""
    payload = json.dumps({"message": NOT_THE_SERVICE}).encode()

    async def failed(frames: Frames) -> Frames:
        async for number, frame in _numbered(frames):
            yield frame
            if (number or 0) >= events:
                yield Frame.exception(code, payload)
                return

    return failed


def cut(events: int, kept: float) -> Change:
    """End within a frame; see `Faults.cut_event`."""

    async def cut_after(frames: Frames) -> Frames:
        async for number, frame in _numbered(frames):
            if number == events + 1:
                yield _Altered(frame.headers, frame.payload, lambda data: data[: int(len(data) * kept)])
                return
            yield frame

    return cut_after


def damage(events: int) -> Change:
    """Damage an event; see `Faults.damage_event`."""
    return _replace_event(events, lambda frame: (_Altered(frame.headers, frame.payload, _flip),))


def repeat(events: int) -> Change:
    """Send an event twice; see `Faults.repeat_event`."""
    return _replace_event(events, lambda frame: (frame, frame))


def _replace_event(events: int, change: Callable[[Frame], Sequence[Frame]]) -> Change:
    async def replaced(frames: Frames) -> Frames:
        async for number, frame in _numbered(frames):
            for each in change(frame) if number == events + 1 else (frame,):
                yield each

    return replaced


def swap(events: int) -> Change:
    """Send two events in reverse order; see `Faults.swap_events`."""

    async def swapped(frames: Frames) -> Frames:
        held: list[Frame] = []
        async for number, frame in _numbered(frames):
            if number == events + 1 or (held and number is None):
                held.append(frame)
                continue
            yield frame
            while held:
                yield held.pop(0)
        for frame in held:
            yield frame

    return swapped


def keep_continuation(events: int) -> Change:
    """Send the same continuation from some event on; see `Faults.stale_continuation`."""

    async def kept(frames: Frames) -> Frames:
        stale: str | None = None
        count = 0
        async for number, frame in _numbered(frames):
            count = number or count
            members = event_members(frame)
            if members is None or "ContinuationSequenceNumber" not in members:
                yield frame
            elif count <= events or stale is None:
                stale = members["ContinuationSequenceNumber"]
                yield frame
            else:
                yield _with_members(frame, members | {"ContinuationSequenceNumber": stale})

    return kept


async def end_twice(frames: Frames) -> Frames:
    """Send the end of a shard twice; see `Faults.end_shard_twice`."""
    async for frame in frames:
        yield frame
        if "ChildShards" in (event_members(frame) or {}):
            yield frame


async def end_without_children(frames: Frames) -> Frames:
    """Remove the child shards; see `Faults.end_without_children`."""
    async for frame in frames:
        members = event_members(frame)
        if members is None:
            yield frame
        else:
            yield _with_members(
                frame, {name: value for name, value in members.items() if name != "ChildShards"}
            )


@dataclass(frozen=True)
class _Altered(Frame):
    alter: Callable[[bytes], bytes]

    def encode(self) -> bytes:
        return self.alter(super().encode())


def _flip(data: bytes) -> bytes:
    """Invert the last byte of the payload, which the checksum of four bytes follows."""
    return data[:-5] + bytes([data[-5] ^ 0xFF]) + data[-4:]


def _with_members(frame: Frame, members: dict[str, Any]) -> Frame:
    return frame.with_payload(json.dumps(members).encode())


async def _numbered(frames: Frames) -> AsyncGenerator[tuple[int | None, Frame], None]:
    """Yield the number of each event with records, from 1, and None for all other frames."""
    number = 0
    async for frame in frames:
        members = event_members(frame)
        with_records = members is not None and bool(members["Records"])
        number += with_records
        yield number if with_records else None, frame
