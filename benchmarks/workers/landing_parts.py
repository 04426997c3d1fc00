"""The CPU of each part of a landing over the same pages, and of a task that does everything.

    python -m benchmarks.workers.landing_parts separate | task URL ROUNDS

prints the median CPU seconds of each part as JSON. If a target is missed, this shows the reason: what only
another HTTP library, JSON decoder or Parquet writer could save, and what this package could save.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks.harness.host_memory import reclaim_from_host
from benchmarks.harness.single_process import NO_CALL_PACING, REGION, prepare_landing
from benchmarks.harness.worker_protocol import ReadRequest
from benchmarks.servers.replay_streams import ReplayStream, StreamSpec, iterator
from benchmarks.workers.landing import row_groups, write_file
from kinesis_assets.ingest.task import configure_allocators
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.pages import PageSource
from kinesis_assets.kinesis.reading.range import Bounds, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.records.records import record_batch
from kinesis_assets.kinesis.records.wire import WirePage
from kinesis_assets.kinesis.settings import CONNECTIONS, PAGE_LIMIT, ClientSettings
from kinesis_assets.kinesis.transport.concurrency import run
from kinesis_assets.kinesis.transport.signed_call import SignedCall

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kinesis_assets.kinesis.records.wire import Page

SPEC = StreamSpec("parts", shards=32, pages=3, page_records=1000)
TASK_SPEC = StreamSpec("whole", shards=32, pages=12, page_records=1000)
"""A longer stream, so that the start and the end of the task are as small a part as in a landing."""

CALLS = "calls: sign, send, receive"
DECODE = "decode JSON and base64 into typed pages; sequence numbers"
CHECK = "positions, limits, checksums, Arrow columns"
WRITE = "write Parquet"
TASK = f"all of these in a task, with {CONNECTIONS} calls at once"

SEPARATE = [CALLS, DECODE, CHECK, WRITE]
"""The parts that are measured separately, and together make up a landing."""

_DATE = "Sat, 21 Nov 2026 00:00:00 GMT"


class _Parts:
    def __init__(self, url: str, folder: str) -> None:
        self._url = url
        self._folder = folder
        self._client = StreamClient(SPEC.name, ClientSettings(REGION, url, timing=NO_CALL_PACING))
        self._groups = row_groups(ReadRequest(url, SPEC.name, SPEC.records, folder))
        served = ReplayStream(SPEC)
        self._bodies = {
            iterator(SPEC.name, shard, index): served.page(shard, index, PAGE_LIMIT)
            for shard in range(SPEC.shards)
            for index in range(0, SPEC.shard_records, SPEC.page_records)
        }
        self._decode = msgspec.json.Decoder(WirePage).decode
        self._undecoded = self._client_with(SignedCall(self._client._client, "GetRecords", WirePage))  # noqa: SLF001
        self._undecoded._records_call._decoder = _Undecoded()  # type: ignore[union-attr]  # noqa: SLF001
        self._local = self._client_with(
            _Pages({iterator_: self._decode(body).to_result() for iterator_, body in self._bodies.items()})
        )
        self._shards = self._client.list_shards()

    def _client_with(self, calls: Any) -> StreamClient:
        """Return a client that gets its records by other calls."""
        client = StreamClient(SPEC.name, self._client.settings)
        client._records_call = calls  # noqa: SLF001
        return client

    def call(self) -> None:
        """Request every page, without decoding it."""

        async def call() -> None:
            for iterator_ in self._bodies:
                await self._undecoded.getting_records(iterator_, PAGE_LIMIT)

        run(call())

    def decode(self) -> None:
        """Decode every page."""
        for body in self._bodies.values():
            self._decode(body).to_result()

    def check(self) -> None:
        """Read every shard and create its batches, from pages that are in memory."""
        for number, shard in enumerate(self._shards):
            range_ = ShardRange(
                shard.shard_id, Position(PositionKind.TRIM_HORIZON), Bounds(), shard.hash_range
            )
            reading = ShardReading(self._local, range_)
            pages = reading._pages  # noqa: SLF001
            assert isinstance(pages, PageSource)
            pages._iterator = iterator(SPEC.name, number, 0)  # noqa: SLF001
            for records in reading:
                record_batch(SPEC.name, shard.shard_id, records)
            assert reading.records == SPEC.shard_records, reading.records

    def write(self) -> None:
        """Write all row groups."""
        write_file(ReadRequest(self._url, SPEC.name, SPEC.records, self._folder), self._groups)


class _Pages:
    """Calls that return pages from memory."""

    operation = "GetRecords"

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages

    async def __call__(self, arguments: Mapping[str, Any], *_: object) -> tuple[Page, str]:
        page = self._pages[arguments["ShardIterator"]]
        return replace(page, records=page.records[:]), _DATE  # a copy, whose columns are not yet created


class _Undecoded:
    """A decoder that returns a page without records for any body."""

    def decode(self, _body: bytes) -> WirePage:
        return WirePage([], 0)


def _separate(url: str, folder: str) -> dict[str, Callable[[], None]]:
    parts = _Parts(url, folder)
    return {CALLS: parts.call, DECODE: parts.decode, CHECK: parts.check, WRITE: parts.write}


def _task(url: str, folder: str) -> dict[str, Callable[[], None]]:
    """Return all parts as a task does them, without Spark, plan and commit."""

    def task() -> None:
        prepare_landing(url, TASK_SPEC.name, folder)()

    return {TASK: task}


KINDS = {"separate": _separate, "task": _task}


def measure(kind: str, url: str, rounds: int) -> dict[str, float]:
    """Return the median CPU seconds of each part over its whole stream."""
    configure_allocators()  # as a task does
    with tempfile.TemporaryDirectory() as folder:
        parts = KINDS[kind](url, folder)
        seconds: dict[str, list[float]] = {part: [] for part in parts}
        for number in range(rounds + 1):
            for part, work in parts.items():
                reclaim_from_host(TASK_SPEC.data_bytes)
                before = time.process_time()
                work()
                if number:  # the first round is a warm-up
                    seconds[part].append(time.process_time() - before)
                for file in Path(folder).rglob("*.parquet"):
                    file.unlink()
    return {part: statistics.median(each) for part, each in seconds.items()}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))))  # noqa: T201  # read by `measure_parts`
