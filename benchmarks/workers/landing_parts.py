"""What landing consists of: the CPU of each part alone, over the same pages, and of a task that does it all.

    python -m benchmarks.workers.landing_parts alone | whole URL ROUNDS

prints CPU seconds for each part as JSON, medians. Where a target is missed, this tells why: what only another
HTTP stack, JSON decoder or Parquet writer could save, and what is left to this package.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks.harness import host_memory
from benchmarks.harness.measure import GB
from benchmarks.harness.single_process import REGION, landing_of, unpaced
from benchmarks.harness.worker_protocol import Order
from benchmarks.servers.replay_streams import ReplayStream, StreamSpec, iterator
from benchmarks.workers.landing import tables, written
from kinesis_assets.ingest.shard_group import CALLS as CALLS_AT_ONCE
from kinesis_assets.ingest.worker_tuning import configure_allocators
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import ShardRange
from kinesis_assets.kinesis.reading.reading import PAGE_LIMIT, ShardReading
from kinesis_assets.kinesis.records.arrow import record_batch
from kinesis_assets.kinesis.records.wire import WirePage
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.kinesis.transport.signed_call import SignedCall

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.servers.replay_client import ReplayServer
    from kinesis_assets.kinesis.records.wire import Page
    from kinesis_assets.kinesis.transport.awaitables import Awaitable

SPEC = StreamSpec("parts", shards=32, pages=3, page_records=1000)
WHOLE = StreamSpec("whole", shards=32, pages=12, page_records=1000)
"""Longer, so that a task's beginning and end are as little of it as of a landing."""

CALLS = "calls: signed, sent, received"
DECODE = "JSON and base64 to bytes, typed; sequence numbers"
CHECK = "positions, bounds, checksums, Arrow columns"
WRITE = "Parquet written"
ALL = f"all of these, as a task does them, {CALLS_AT_ONCE} calls at once"

ALONE = [CALLS, DECODE, CHECK, WRITE]
"""What is measured alone, and adds up to a landing."""

_DATE = "Sat, 21 Nov 2026 00:00:00 GMT"


def parts(server: ReplayServer, rounds: int) -> dict[str, float]:
    """CPU seconds for 10^9 bytes of record data, by part.

    The whole is measured in a process of its own: beside all the pages that the parts hold, memory is slower.
    """
    seconds: dict[str, float] = {}
    for kind, spec in (("alone", SPEC), ("whole", WHOLE)):
        server.create(spec)
        command = [sys.executable, "-m", "benchmarks.workers.landing_parts", kind, server.url, str(rounds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        server.delete(spec.name)
        seconds |= {part: each * GB / spec.data_bytes for part, each in json.loads(done.stdout).items()}
    return seconds


class _Parts:
    def __init__(self, url: str, folder: str) -> None:
        self._url = url
        self._folder = folder
        self._client = StreamClient(SPEC.name, ClientSettings(REGION, url))
        self._tables = tables(Order(url, SPEC.name, SPEC.records, folder))
        served = ReplayStream(SPEC)
        self._bodies = {
            iterator(SPEC.name, shard, index): served.page(shard, index, PAGE_LIMIT)
            for shard in range(SPEC.shards)
            for index in range(0, SPEC.shard_records, SPEC.page_records)
        }
        self._decode = msgspec.json.Decoder(WirePage).decode
        self._undecoded = self._client_that(SignedCall(self._client._client, "GetRecords", WirePage))  # noqa: SLF001
        self._undecoded._get_records._decoder = _Undecoded()  # type: ignore[union-attr]  # noqa: SLF001
        self._local = self._client_that(
            _Pages({begin: self._decode(body).to_result() for begin, body in self._bodies.items()})
        )
        self._shards = self._client.list_shards()

    def _client_that(self, calls: Any) -> StreamClient:
        """A client that has its records by other calls."""
        client = StreamClient(SPEC.name, self._client.settings)
        client._get_records = calls  # noqa: SLF001
        return client

    def call(self) -> None:
        """Every page, not decoded."""
        for begin in self._bodies:
            self._undecoded.get_records(begin, PAGE_LIMIT)

    def decode(self) -> None:
        for body in self._bodies.values():
            self._decode(body).to_result()

    def check(self) -> None:
        """Every shard read and its batches made, from pages that are there."""
        for number, shard in enumerate(self._shards):
            range_ = ShardRange(
                shard.shard_id, Position(PositionKind.TRIM_HORIZON), Bounds(), shard.hash_range
            )
            reading = ShardReading(self._local, range_)
            reading._pages._iterator = iterator(SPEC.name, number, 0)  # noqa: SLF001
            for records in reading:
                record_batch(SPEC.name, shard.shard_id, records)
            assert reading.records == SPEC.shard_records, reading.records

    def write(self) -> None:
        written(Order(self._url, SPEC.name, SPEC.records, self._folder), self._tables)


class _Pages:
    """Answers with pages that are there."""

    operation = "GetRecords"

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages

    def __call__(self, arguments: Mapping[str, Any], _reservation: object) -> Awaitable[tuple[Page, str]]:
        yield from ()  # it waits for nothing
        page = self._pages[arguments["ShardIterator"]]
        return replace(page, records=page.records[:]), _DATE  # whose columns are not made yet


class _Undecoded:
    """Takes any body for a page without records."""

    def decode(self, _body: bytes) -> WirePage:
        return WirePage([], 0)


def _alone(url: str, folder: str) -> dict[str, Callable[[], None]]:
    of = _Parts(url, folder)
    return {CALLS: of.call, DECODE: of.decode, CHECK: of.check, WRITE: of.write}


def _whole(url: str, folder: str) -> dict[str, Callable[[], None]]:
    """All of it, without Spark, plan and commit."""

    def task() -> None:
        landing_of(url, WHOLE.name, folder)()

    return {ALL: task}


KINDS = {"alone": _alone, "whole": _whole}


def measure(kind: str, url: str, rounds: int) -> dict[str, float]:
    """CPU seconds of each part over the whole of its stream, median."""
    configure_allocators()  # as a task does
    with tempfile.TemporaryDirectory() as folder, unpaced():
        work = KINDS[kind](url, folder)
        seconds: dict[str, list[float]] = {part: [] for part in work}
        for number in range(rounds + 1):
            for part, do in work.items():
                host_memory.at_hand(WHOLE.data_bytes)
                before = time.process_time()
                do()
                if number:  # the first one warms up
                    seconds[part].append(time.process_time() - before)
                for file in Path(folder).rglob("*.parquet"):
                    file.unlink()
    return {part: statistics.median(each) for part, each in seconds.items()}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))))  # noqa: T201  # for who started it
