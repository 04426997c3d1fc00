"""The faults that take more than a few lines: limits, changed pages, lists and puts, and deleted records."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from dataclasses import replace
from http import HTTPStatus
from math import inf
from typing import TYPE_CHECKING, Any

from msgspec import structs

from kinesis_assets.emulator import iterators
from kinesis_assets.emulator.shapes import ResourceNotFoundException
from kinesis_assets.emulator.shards import SequenceNumber, record_size
from kinesis_assets.errors import InvalidInput, ShardUnknown
from kinesis_assets.testing.event_faults import change_frames, event_members
from kinesis_assets.testing.exchange import NOT_THE_SERVICE, Answer, Fault, shards_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from kinesis_assets.emulator.account import Account, Stream
    from kinesis_assets.emulator.event_stream import Frames
    from kinesis_assets.emulator.shards import Shard
    from kinesis_assets.testing.exchange import Call, Downstream, Layer


THROTTLED = "ProvisionedThroughputExceededException"

_READS = 5
_READ_BYTES = 2 * 1024 * 1024
_CONTROL_CALLS = {
    "DeregisterStreamConsumer": 5,
    "DescribeStreamConsumer": 20,
    "ListStreamConsumers": 5,
    "RegisterStreamConsumer": 5,
}
_WRITES = 1000
_WRITTEN_BYTES = 1024 * 1024

_CLOCK_CHECK = 0.05
"""How often a subscription that has to wait checks the clock, in seconds of the machine's clock."""


class _Window:
    """A sliding window over the last second."""

    def __init__(self, clock: Callable[[], float], max_count: int, max_bytes: float) -> None:
        self._clock = clock
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._admitted: deque[tuple[float, int]] = deque()
        self._bytes = 0

    def admit(self, size: int) -> bool:
        """Return whether one more item of `size` bytes is within the limits, and count it if so.

        A single item is always admitted, because a record may be larger than the limit.
        """
        now = self._clock()
        while self._admitted and self._admitted[0][0] <= now - 1:
            self._bytes -= self._admitted.popleft()[1]
        if self._admitted and (
            len(self._admitted) == self._max_count or self._bytes + size > self._max_bytes
        ):
            return False
        self._admitted.append((now, size))
        self._bytes += size
        return True


class Limits:
    """The limits of `Faults.enforce_limits` as layers around the service.

    Args:
        clock: Returns a time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.faults = (
            Fault("GetRecords", self._read),
            Fault("PutRecord", self._put_record),
            Fault("PutRecords", self._put_records),
            Fault("SubscribeToShard", self._subscribe),
            *(Fault(operation, self._control) for operation in _CONTROL_CALLS),
        )
        self._windows: dict[tuple[Any, ...], _Window] = {}
        self._readable_at: dict[tuple[Any, ...], float] = {}

    def _admits(self, limited: tuple[Any, ...], most: int, size: int = 0, most_bytes: float = inf) -> bool:
        return self._windows.setdefault(limited, _Window(self._clock, most, most_bytes)).admit(size)

    async def _read(self, call: Call, downstream: Downstream) -> Answer:
        shard = (*_stream(call, downstream.account), call.shard_id)
        if self._clock() < self._readable_at.get(shard, 0) or not self._admits(("reads", *shard), _READS):
            return Answer.error(THROTTLED)
        answer = await downstream(call)
        if answer.status == HTTPStatus.OK:
            self._readable_at[shard] = self._clock() + _size(answer.members["Records"]) / _READ_BYTES
        return answer

    async def _subscribe(self, call: Call, downstream: Downstream) -> Answer:
        if not self._admits(("subscriptions", call.arguments.get("ConsumerARN"), call.shard_id), 1):
            return Answer.error("LimitExceededException")
        return await change_frames(self._paced)(call, downstream)

    async def _paced(self, frames: Frames) -> Frames:
        async for frame in frames:
            yield frame
            until = self._clock() + _size((event_members(frame) or {}).get("Records", ())) / _READ_BYTES
            while (seconds := until - self._clock()) > 0:  # noqa: ASYNC110  # the clock may be a test's
                await asyncio.sleep(min(seconds, _CLOCK_CHECK))

    async def _control(self, call: Call, downstream: Downstream) -> Answer:
        account = downstream.account
        is_of_account = call.operation == "RegisterStreamConsumer"
        limited = (id(account.accounts), account.account_id) if is_of_account else _stream(call, account)
        if not self._admits((call.operation, *limited), _CONTROL_CALLS[call.operation]):
            return Answer.error("LimitExceededException")
        return await downstream(call)

    async def _put_record(self, call: Call, downstream: Downstream) -> Answer:
        stream = _stream(call, downstream.account)
        if call.shard_id is None or self._admits_write(stream, call.shard_id, call.arguments):
            return await downstream(call)
        return Answer.error(THROTTLED)

    async def _put_records(self, call: Call, downstream: Downstream) -> Answer:
        stream = _stream(call, downstream.account)
        shard_ids = shards_of(call.operation, call.arguments, downstream.account)
        failing = [
            index
            for index, shard_id in enumerate(shard_ids)
            if not self._admits_write(stream, shard_id, call.arguments["Records"][index])
        ]
        return await put_except(call, downstream, failing, THROTTLED) if failing else await downstream(call)

    def _admits_write(self, stream: tuple[int, str], shard_id: str, entry: dict[str, Any]) -> bool:
        size = record_size(entry["Data"], entry.get("PartitionKey"))
        return self._admits(("writes", *stream, shard_id), _WRITES, size, _WRITTEN_BYTES)


def _stream(call: Call, account: Account) -> tuple[int, str]:
    """Return what tells the stream of a call from those of other accounts and services."""
    return id(account.accounts), call.arn_in(account)


def _size(records: Iterable[dict[str, Any]]) -> int:
    return sum(record_size(record["Data"], record.get("PartitionKey")) for record in records)


def change_pages(change: Callable[[Call, Answer, Account], Answer]) -> Layer:
    """Change responses that are no errors."""

    async def changed(call: Call, downstream: Downstream) -> Answer:
        answer = await downstream(call)
        return change(call, answer, downstream.account) if answer.status == HTTPStatus.OK else answer

    return changed


def empty(behind_ms: int) -> Layer:
    """Return empty pages; see `Faults.empty_page`."""

    def emptied(call: Call, answer: Answer, account: Account) -> Answer:
        here = iterators.decode(call.arguments["ShardIterator"], iterators.ShardPosition, now=0)
        again = structs.replace(here, issued_at=account.clock.now())
        page = {"Records": [], "NextShardIterator": iterators.encode(again), "MillisBehindLatest": behind_ms}
        return answer.with_body(json.dumps(page).encode())

    return change_pages(emptied)


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
        # No inner fault counts this as a call of the client.
        again = await downstream.serve(
            replace(call, arguments={**call.arguments, "ShardIterator": iterators.encode(before)})
        )
        return again if again.status != HTTPStatus.OK else answer.but(Records=again.members["Records"])

    return repeated


def change_records(change: Callable[[list[Any]], list[Any]]) -> Layer:
    """Change the records of pages."""
    return change_pages(lambda _, answer, __: answer.but(Records=change(answer.members["Records"])))


def trim(stream: Stream, shard_id: str | None, before: str | None) -> None:
    """Delete records of one shard or of all shards; see `Faults.trim`."""
    try:
        shards = stream.shards if shard_id is None else [stream.shard(shard_id)]
    except ResourceNotFoundException as error:
        raise ShardUnknown(
            str(shard_id), f"the shard does not exist in stream {stream.name}; use a shard id from ListShards"
        ) from error
    if before is None:
        for shard in shards:
            shard.trim_to(shard.next)
        return
    if shard_id is None:
        raise InvalidInput(f"before={before} needs a shard_id: a sequence number belongs to one shard")
    (shard,) = shards
    shard.trim_to(_position(shard, before))


def stale_list(reshards: int) -> Layer:
    """List the shards as of before the last reshards; see `Faults.stale_list`."""

    def listed_before(call: Call, answer: Answer, account: Account) -> Answer:
        with account.lock:
            if (stream := account.stream_by_arn(call.arn_in(account))) is None:
                return answer
            return answer.but(Shards=_before_reshards(stream, answer.members["Shards"], reshards))

    return change_pages(listed_before)


def _before_reshards(stream: Stream, listed: list[dict[str, Any]], reshards: int) -> list[dict[str, Any]]:
    """Return a page of listed shards as of before the last reshards."""
    shards = {shard.shard_id: shard for shard in stream.shards}
    closing_times = sorted({shard.closed_at for shard in shards.values() if shard.closed_at is not None})
    if not closing_times:
        return listed
    until = closing_times[max(0, len(closing_times) - reshards)]
    page = [shard for shard in listed if shards[shard["ShardId"]].opened_at < until]
    return [
        _reopened(shard) if (shards[shard["ShardId"]].closed_at or 0) >= until else shard for shard in page
    ]


def _reopened(listed: dict[str, Any]) -> dict[str, Any]:
    numbers = {name: number for name, number in listed["SequenceNumberRange"].items() if "Ending" not in name}
    return listed | {"SequenceNumberRange": numbers}


def _position(shard: Shard, sequence_number: str) -> int:
    number = SequenceNumber.parse(sequence_number) if sequence_number.isdecimal() else None
    if number is None or (number.era, number.shard_number) != (shard.era, shard.number):
        raise InvalidInput(f"before={sequence_number!r} is not a sequence number of {shard.shard_id}")
    return number.ordinal


def change_answer(change: Callable[[Call, Answer], Answer | None]) -> Layer:
    """Change responses; see `Faults.answer`."""

    async def changed(call: Call, downstream: Downstream) -> Answer:
        answer = await downstream(call)
        replacement = change(call, answer)
        return answer if replacement is None else replacement

    return changed


def fail_some(every: int, code: str, shard_id: str | None) -> Layer:
    """Let some records of PutRecords fail; see `Faults.partial_puts`."""

    async def failed(call: Call, downstream: Downstream) -> Answer:
        shard_ids = shards_of(call.operation, call.arguments, downstream.account)
        candidates = [index for index, each in enumerate(shard_ids) if shard_id in (None, each)]
        failing = candidates[every - 1 :: every]
        return await put_except(call, downstream, failing, code) if failing else await downstream(call)

    return failed


async def put_except(call: Call, downstream: Downstream, failing: Collection[int], code: str) -> Answer:
    """Put the records of a PutRecords call except those at some indexes, which fail with an error code."""
    entries = call.arguments["Records"]
    kept = [entry for index, entry in enumerate(entries) if index not in failing]
    answer = Answer(HTTPStatus.OK, json.dumps({"Records": []}).encode())  # the service refuses empty requests
    if kept:
        answer = await downstream(replace(call, arguments={**call.arguments, "Records": kept}))
        if answer.status != HTTPStatus.OK:
            return answer
    put = iter(answer.members["Records"])
    failed = {"ErrorCode": code, "ErrorMessage": NOT_THE_SERVICE}
    outcomes = [failed if index in failing else next(put) for index in range(len(entries))]
    count = sum("ErrorCode" in outcome for outcome in outcomes)  # the shards' limits may add failures
    return answer.but(FailedRecordCount=count, Records=outcomes)
