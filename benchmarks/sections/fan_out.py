"""The time from a put to its row in a continuous run, beside consumers that poll as often as they can.

And the CPU for each MB of records that it lands.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import boto3

from benchmarks.harness.section import Goal, Section, Target, markdown_table
from benchmarks.harness.spread import Spread, describe_rounds
from benchmarks.sections.continuous import RECORDS_PER_SECOND, SHARDS, STREAM, measure, p95
from kinesis_assets.emulator import LocalKinesis
from kinesis_assets.errors import CallFailed
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.settings import CALLS_PER_SECOND, PAGE_LIMIT, ClientSettings
from kinesis_assets.testing import Faults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.sections.continuous import Freshness

POLLERS = 3
FULL_ROUNDS = 3
_WARM_UP_MB = 20
MAX_SECONDS = 1.2
MAX_CPU_MS = 15.0


def _poll(client: StreamClient, shard_id: str, finished: threading.Event) -> None:
    """Call GetRecords of a shard as often as it allows one consumer, whether it is refused or not.

    The waits vary: at equal intervals, one consumer would take every call that the limits allow.
    """
    iterator = client.shard_iterator(shard_id, Position(PositionKind.LATEST))
    while not finished.wait(random.uniform(0.5, 1.5) / CALLS_PER_SECOND):
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


def landing_cpu(megabytes: int, consumer: str) -> float:
    """Return the CPU seconds in which Spark lands a MB of records of 1 KB that are in the stream already.

    Args:
        megabytes: How much there is.
        consumer: The name of the consumer by which it is read; empty to call GetRecords.
    """
    streams = {"warm-up": _WARM_UP_MB, "measured": megabytes}
    with tempfile.TemporaryDirectory() as folder, LocalKinesis() as local:
        for stream, size in streams.items():
            _fill(local, stream, size, consumer)
        command = [sys.executable, "-m", "benchmarks.workers.fan_out", local.endpoint_url, folder, consumer]
        done = subprocess.run([*command, *streams], stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout) / megabytes


def _fill(local: LocalKinesis, stream: str, megabytes: int, consumer: str) -> None:
    """Create a stream with records of 1 KB, and a consumer."""
    kinesis = boto3.client("kinesis", endpoint_url=local.endpoint_url, region_name=local.region)
    kinesis.create_stream(StreamName=stream, ShardCount=SHARDS)
    if consumer:
        arn = kinesis.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]["StreamARN"]
        kinesis.register_stream_consumer(StreamARN=arn, ConsumerName=consumer)
    keys = [str(shard * ((1 << 128) // SHARDS) + 1) for shard in range(SHARDS)]
    batch = [
        {"Data": os.urandom(1000), "PartitionKey": "k", "ExplicitHashKey": keys[number % SHARDS]}
        for number in range(500)
    ]
    for _ in range(2 * megabytes):
        kinesis.put_records(StreamName=stream, Records=batch)


@dataclass
class Rounds:
    """The rounds of one kind of run.

    Attributes:
        freshness: The time from a put to its row.
        cpu: CPU seconds for each MB.
    """

    freshness: list[Freshness] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    window, rounds = (60.0, FULL_ROUNDS) if full else (20.0, 1)
    megabytes = 200 if full else 100
    polling, subscribed = Rounds(), Rounds()
    for _ in range(rounds):
        for consumer, measurements in (("", polling), ("lake", subscribed)):
            measurements.freshness.append(measured(window, consumer))
            measurements.cpu.append(landing_cpu(megabytes, consumer))
    return describe(polling, subscribed)


def describe(polling: Rounds, subscribed: Rounds) -> Section:
    """Return the section of the report.

    Args:
        polling: Those of a run that polls too.
        subscribed: Those of a run with a consumer.
    """
    both = (polling, subscribed)

    def row(name: str, unit: str, value: Callable[[Freshness], float]) -> list[str]:
        of_both = [Spread.of([value(each) for each in rounds.freshness]) for rounds in both]
        return [name, *(f"{spread.text(2)} {unit}" for spread in of_both)]

    cpu = [Spread.of([1000 * each for each in rounds.cpu]) for rounds in both]

    rows = [
        row("put to raw row, median", "s", lambda each: each.seconds[len(each.seconds) // 2]),
        row("put to raw row, p95", "s", lambda each: p95(each.seconds)),
        row("put to raw row, slowest record", "s", lambda each: each.seconds[-1]),
        row("CPU of the run and its Spark", "of a core", lambda each: each.cpu / each.window),
        ["CPU for each MB of records of 1 KB", *(f"{spread.text(1)} ms" for spread in cpu)],
    ]
    markdown = (
        f"The same run, while {POLLERS} other consumers poll each of {SHARDS} shards {CALLS_PER_SECOND} "
        f"times a second, which is all that a shard allows. {RECORDS_PER_SECOND} records are put a second. "
        "In the second column, the run has a consumer with enhanced fan-out. The CPU for each MB is that of "
        "landings alone, without Dagster, of a backlog in as many shards. "
        f"{describe_rounds(len(polling.cpu))}.\n\n"
        + markdown_table(["measurement", "GetRecords", "enhanced fan-out"], rows)
    )
    seconds = Spread.of([p95(each.seconds) for each in subscribed.freshness])
    return Section(
        "Continuous runs beside other consumers",
        markdown,
        [
            Target(Goal.FAN_OUT_FRESHNESS, f"{seconds.text(2)} s", met=seconds.median <= MAX_SECONDS),
            Target(Goal.FAN_OUT_CPU, f"{cpu[1].text(1)} ms", met=cpu[1].median <= MAX_CPU_MS),
        ],
    )
