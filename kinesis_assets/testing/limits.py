"""The limits of a shard per second.

Sources: https://docs.aws.amazon.com/streams/latest/dev/service-sizes-and-limits.html and, for the pause after
a large response, https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html
"""

from __future__ import annotations

from collections import defaultdict, deque
from http import HTTPStatus
from math import inf
from typing import TYPE_CHECKING, Any

from kinesis_assets.emulator.shards import record_size
from kinesis_assets.testing.fault_chain import Fault
from kinesis_assets.testing.messages import Answer
from kinesis_assets.testing.partial_puts import put_except
from kinesis_assets.testing.routing import shards_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.testing.fault_chain import Downstream
    from kinesis_assets.testing.messages import Call

THROTTLED = "ProvisionedThroughputExceededException"

_READS = 5
_READ_BYTES = 2 * 1024 * 1024
_WRITES = 1000
_WRITTEN_BYTES = 1024 * 1024


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
    """The limits of every shard as layers around the service.

    Args:
        clock: Returns a time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.faults = (
            Fault("GetRecords", self._read),
            Fault("PutRecord", self._put_record),
            Fault("PutRecords", self._put_records),
        )
        self._reads: defaultdict[Any, _Window] = defaultdict(lambda: _Window(clock, _READS, inf))
        self._writes: defaultdict[Any, _Window] = defaultdict(lambda: _Window(clock, _WRITES, _WRITTEN_BYTES))
        self._readable_at: dict[Any, float] = {}

    async def _read(self, call: Call, downstream: Downstream) -> Answer:
        shard = (call.stream, call.shard_id)
        if self._clock() < self._readable_at.get(shard, 0) or not self._reads[shard].admit(0):
            return Answer.error(THROTTLED)
        answer = await downstream(call)
        if answer.status == HTTPStatus.OK:
            records = answer.members["Records"]
            size = sum(record_size(record["Data"], record.get("PartitionKey")) for record in records)
            self._readable_at[shard] = self._clock() + size / _READ_BYTES
        return answer

    async def _put_record(self, call: Call, downstream: Downstream) -> Answer:
        if call.shard_id is None or self._admits_write(call, call.shard_id, call.arguments):
            return await downstream(call)
        return Answer.error(THROTTLED)

    async def _put_records(self, call: Call, downstream: Downstream) -> Answer:
        shard_ids = shards_of(call.operation, call.arguments, downstream.account)
        failing = [
            index
            for index, shard_id in enumerate(shard_ids)
            if not self._admits_write(call, shard_id, call.arguments["Records"][index])
        ]
        return await put_except(call, downstream, failing, THROTTLED) if failing else await downstream(call)

    def _admits_write(self, call: Call, shard_id: str, entry: dict[str, Any]) -> bool:
        return self._writes[call.stream, shard_id].admit(
            record_size(entry["Data"], entry.get("PartitionKey"))
        )
