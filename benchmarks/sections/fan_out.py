"""The time from a put to its row in a continuous run, beside consumers that poll as often as they can."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from benchmarks.harness.section import Section, markdown_table
from benchmarks.harness.spread import Spread, describe_rounds
from benchmarks.sections.continuous import RECORDS_PER_SECOND, SHARDS, STREAM, measure, p95
from kinesis_assets.errors import CallFailed
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.settings import CALLS_PER_SECOND, PAGE_LIMIT, ClientSettings
from kinesis_assets.testing import Faults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.sections.continuous import Freshness
    from kinesis_assets.emulator import LocalKinesis

POLLERS = 3
FULL_ROUNDS = 3


def _poll(client: StreamClient, shard_id: str, finished: threading.Event) -> None:
    """Call GetRecords of a shard as often as it allows one consumer, whether it is refused or not."""
    iterator = client.shard_iterator(shard_id, Position(PositionKind.LATEST))
    while not finished.wait(1 / CALLS_PER_SECOND):
        try:
            page, _ = client.get_records(iterator, PAGE_LIMIT)
        except CallFailed:
            continue
        iterator = page.next_shard_iterator or iterator


@contextmanager
def pollers(local: LocalKinesis) -> Iterator[None]:
    """Let some consumers poll the stream."""
    client = StreamClient(STREAM, ClientSettings(local.region, local.endpoint_url), attempts=1)
    finished = threading.Event()
    threads = [
        threading.Thread(target=_poll, args=[client, shard.shard_id, finished])
        for shard in client.list_shards()
        for _ in range(POLLERS)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        finished.set()
        for thread in threads:
            thread.join()


def measured(window: float, consumer: str) -> Freshness:
    """Measure a run beside these consumers, where the limits of the shards apply."""
    faults = Faults()
    faults.enforce_limits()
    return measure(window, consumer=consumer, wrap=faults.around, others=pollers)


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    window, rounds = (60.0, FULL_ROUNDS) if full else (20.0, 1)
    polling, subscribed = [], []
    for _ in range(rounds):
        polling.append(measured(window, ""))
        subscribed.append(measured(window, "lake"))
    return describe(polling, subscribed)


def describe(polling: Sequence[Freshness], subscribed: Sequence[Freshness]) -> Section:
    """Return the section of the report.

    Args:
        polling: Rounds of a run that polls too.
        subscribed: Rounds of a run with a consumer.
    """

    def row(name: str, unit: str, value: Callable[[Freshness], float]) -> list[str]:
        of_both = [Spread.of([value(each) for each in rounds]) for rounds in (polling, subscribed)]
        return [name, *(f"{spread.text(2)} {unit}" for spread in of_both)]

    rows = [
        row("put to raw row, median", "s", lambda each: each.seconds[len(each.seconds) // 2]),
        row("put to raw row, p95", "s", lambda each: p95(each.seconds)),
        row("put to raw row, slowest record", "s", lambda each: each.seconds[-1]),
        row("CPU of the run and its Spark", "of a core", lambda each: each.cpu / each.window),
    ]
    markdown = (
        f"The same run, while {POLLERS} other consumers poll each of {SHARDS} shards {CALLS_PER_SECOND} "
        f"times a second, which is all that a shard allows. {RECORDS_PER_SECOND} records are put a second. "
        "In the second column, the run has a consumer with enhanced fan-out. "
        f"{describe_rounds(len(polling))}.\n\n"
        + markdown_table(["measurement", "GetRecords", "enhanced fan-out"], rows)
    )
    return Section("Continuous runs beside other consumers", markdown, [])
