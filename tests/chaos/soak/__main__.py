"""The soak test: `python tests/chaos/soak --minutes 30`.

A producer puts records at a steady rate, while shards are split and merged, the record distribution strategy
changes, calls fail, processes are killed, and the store is slow. Two deployments of Dagster write to one
table and to a table derived from it; the runs of the second one are continuous. At the end, both tables must
contain each acknowledged record once; otherwise, the exit code is 1.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import click
import matplotlib as mpl
from botocore.config import Config
from deltalake import DeltaTable
from deployment import Deployment, kill_one
from producer import BATCHES_PER_SECOND, OnDemandStream, Producer, every

from benchmarks.servers.slow_bucket import slow_bucket
from kinesis_assets.testing import Faults, LocalKinesis, aws_environment

mpl.use("Agg")
from matplotlib import pyplot as plt

PROJECT = Path(__file__).parents[3]
SCRIPT = Path(sys.prefix, "bin", "kinesis-assets")
STREAM = "soak"
SECONDS_BETWEEN_KILLS = 10
SECONDS_BETWEEN_FAULTS = 3
SECONDS_BETWEEN_RESHARDS = 60
SECONDS_BETWEEN_STRATEGIES = 25
SECONDS_PER_TURN = 60
"""The time for which the processes of one deployment are killed, before those of the other one. A cold start
takes longer than the time between two kills, so that nothing would ever be committed if both were killed."""

FOLLOW_FOR = 25.0
"""Duration of a continuous run of the second deployment. It commits several times, or is killed."""

MINUTES_TO_CATCH_UP = 10


def inject_fault(faults: Faults, source: random.Random) -> None:
    """Inject a fault into the next calls, in place of earlier faults, which could otherwise accumulate."""
    faults.clear()
    source.choice(
        [
            partial(faults.throttle, times=3),
            partial(faults.throttle, "PutRecords", times=1),
            partial(faults.expire, times=1),
            partial(faults.fail, status=500, times=2),
            partial(faults.reset, times=2),
            partial(faults.empty_page, times=4),
            partial(faults.cut_body, times=1),
            partial(faults.delay, 0.5, times=4),
            partial(faults.partial_puts, times=2),
            partial(faults.throttle, "ListShards", code="LimitExceededException", times=1),
            partial(faults.null_iterator, times=2),
            partial(faults.stale_list, times=2),
            partial(faults.repeat_page, times=2),
            partial(faults.long_page, above=10, times=2),
            partial(faults.wrong_arrival, times=1),
            partial(faults.skew_date, 400 * 86_400, times=2),
        ]
    )()


def rows(table: str) -> list[tuple[str, str, bytes]]:
    """Return (shard id, sequence number, data) of every row."""
    names = ["shard_id", "sequence_number", "data"]
    columns = DeltaTable(table).to_pyarrow_table(columns=names)
    return list(zip(*(columns[name].to_pylist() for name in names), strict=True))


def count(table: str) -> int:
    return int(DeltaTable(table).count()) if DeltaTable.is_deltatable(table) else 0


def plot(points: list[dict[str, float]], file: Path) -> None:
    figure, (above, below) = plt.subplots(2, sharex=True, figsize=(9, 6))
    minutes = [point["minute"] for point in points]
    for name in ("rows in", "rows in table", "rows in derived table"):
        above.plot(minutes, [point[name] for point in points], label=name)
    for name in ("kills", "conflicts"):
        below.plot(minutes, [point[name] for point in points], label=name)
    for axes in (above, below):
        axes.legend()
        axes.set_ylim(bottom=0)
    below.set_xlabel("minutes")
    figure.savefig(file)


def catch_up(options: list[str]) -> None:
    """Run the command line until no shard is behind."""
    deadline = time.monotonic() + MINUTES_TO_CATCH_UP * 60
    while True:
        done = subprocess.run(
            [SCRIPT, "run", *options, "--json"], check=False, capture_output=True, text=True
        )
        shards = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode == 0 and not any(shard["lag_ms"] for shard in shards):
            return
        if time.monotonic() > deadline:
            sys.exit(f"the table does not catch up with the stream: {done.stdout}{done.stderr}")


class Soak:
    """Everything that happens at once, and what was observed.

    Attributes:
        points: The figures of each minute.
        kills: Number of killed processes, by kind.
        reshards: Number of reshards.
        failures: Errors of the soak test itself.
        deployments: Both deployments; the runs of the second one are continuous.
    """

    def __init__(
        self, local: LocalKinesis, faults: Faults, folder: Path, table: str, rate: int, seed: int
    ) -> None:
        self.table = table
        self.derived = f"{table}-derived"
        self.options = ["--stream", STREAM, "--table", table]
        self.options += ["--endpoint-url", local.endpoint_url, "--region", local.region]
        self.points: list[dict[str, float]] = []
        self.kills: Counter[str] = Counter()
        self.reshards = 0
        self.failures: list[str] = []
        self._faults = faults
        sources = [random.Random(seed + number) for number in range(4)]
        self._sources = sources[1:3]
        client: Any = partial(
            boto3.client, "kinesis", endpoint_url=local.endpoint_url, region_name=local.region
        )
        self._stream = OnDemandStream(client(), STREAM, sources[3])
        no_retries = Config(retries={"total_max_attempts": 1})
        self.producer = Producer(client(config=no_retries), STREAM, rate, sources[0])
        self.deployments = [
            Deployment(
                folder / name,
                PROJECT,
                stream=STREAM,
                table=table,
                derived=self.derived,
                endpoint=local.endpoint_url,
                follow_for=follow_for,
            )
            for name, follow_for in (("one", None), ("other", FOLLOW_FOR))
        ]

    def run(self, minutes: int) -> None:
        """Let everything happen at once, and print a line each minute."""
        stopped = threading.Event()
        repeat = partial(every, stopped=stopped, failures=self.failures)
        threads = [
            repeat(1 / BATCHES_PER_SECOND, self.producer.produce),
            repeat(SECONDS_BETWEEN_FAULTS, partial(inject_fault, self._faults, self._sources[0])),
            repeat(SECONDS_BETWEEN_KILLS, self._kill),
            repeat(SECONDS_BETWEEN_RESHARDS, self._reshard),
            repeat(SECONDS_BETWEEN_STRATEGIES, self._switch_strategy),
            repeat(1, lambda: [deployment.ensure_running() for deployment in self.deployments]),
        ]
        try:
            started = time.monotonic()
            for minute in range(1, minutes + 1):
                time.sleep(max(0.0, started + minute * 60 - time.monotonic()))
                self.record(minute)
        finally:
            stopped.set()
            for thread in threads:
                thread.join()
            for deployment in self.deployments:
                deployment.stop()
            self._faults.clear()

    def record(self, minute: int) -> None:
        """Record the figures of a minute, and print them."""
        put, landed = len(self.producer.acknowledged), count(self.table)
        point = {
            "minute": minute,
            "rows in": put,
            "rows in table": landed,
            "rows in derived table": count(self.derived),
            "lag": put - landed,
            "kills": self.kills.total(),
            "conflicts": sum(deployment.conflicts() for deployment in self.deployments),
        }
        self.points.append(point)
        click.echo(", ".join(f"{name} {value}" for name, value in point.items()))

    def _kill(self) -> None:
        turn = int(time.monotonic()) // SECONDS_PER_TURN
        kind = kill_one(self.deployments[turn % len(self.deployments)], self._sources[1])
        if kind:
            self.kills[kind] += 1

    def _reshard(self) -> None:
        click.echo(self._stream.reshard())
        self.reshards += 1

    def _switch_strategy(self) -> None:
        self.producer.needs_keys = self._stream.switch_strategy()

    def doctor_finds_no_problem(self) -> bool:
        """Return whether `kinesis-assets doctor` finds no problem with the events of either deployment."""
        return all(
            subprocess.run(
                [SCRIPT, "doctor", *self.options, "--rows"],
                env=os.environ | {"DAGSTER_HOME": str(deployment.home)},
                check=False,
            ).returncode
            == 0
            for deployment in self.deployments
        )

    def everything_happened(self) -> bool:
        """Return whether all kinds of events happened and nothing failed, and print the figures."""
        happened = {
            "records": len(self.producer.acknowledged),
            "records without a partition key": self.producer.keyless,
            "reshards": self.reshards,
            "kills": self.kills.total(),
        }
        # Not required to be above 1, because kills may leave no run enough time for a second commit.
        most = self.deployments[1].max_commits_of_a_run()
        click.echo(f"events: {happened}; maximum commits of a run: {most}; failures: {self.failures}")
        return all(happened.values()) and not self.failures


@click.command()
@click.option("--minutes", default=30, show_default=True)
@click.option("--rate", default=200, show_default=True, help="Records per second.")
@click.option("--latency", default=20, show_default=True, help="Latency of the store in milliseconds.")
@click.option("--seed", type=int, help="Seed of all random decisions. Random by default.")
def main(minutes: int, rate: int, latency: int, seed: int | None) -> None:
    """Run the soak test, and exit with 0 if both tables contain each acknowledged record once."""
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    folder = PROJECT / ".local" / "soak"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    faults = Faults()
    with LocalKinesis(wrap=faults.around) as local, ExitStack() as stack:
        os.environ |= aws_environment(local)
        table = f"{stack.enter_context(slow_bucket(latency / 1000))}/soak"
        soak = Soak(local, faults, folder, table, rate, seed)
        soak.run(minutes)
        click.echo(f"killed {dict(soak.kills)}; catching up")
        catch_up(soak.options)
        derived = soak.deployments[0].materialize("derived")
        if derived.returncode:
            sys.exit(f"the derived table does not catch up with the table: {derived.stdout}{derived.stderr}")
        soak.record(minutes + 1)
        plot(soak.points, folder / "soak.png")
        found = [contains_exactly(rows(uri), soak.producer) for uri in (soak.table, soak.derived)]
        exact = all(found)
        sys.exit(0 if exact and soak.everything_happened() and soak.doctor_finds_no_problem() else 1)


def contains_exactly(found: list[tuple[str, str, bytes]], producer: Producer) -> bool:
    """Return whether the rows are the acknowledged records, each of them once, and print the numbers."""
    expected, actual = Counter(producer.acknowledged), Counter(found)
    missing, additional = expected - actual, actual - expected
    # A record whose response was lost may be in the stream, and is then in the table once.
    unsure = [row for row in additional if row[2] in producer.unsure]
    duplicates = [row for row, times in actual.items() if times > 1]
    unexpected = additional.total() - len(unsure)
    click.echo(
        f"{expected.total()} acknowledged, {len(unsure)} in addition whose response was lost; "
        f"{missing.total()} missing, {len(duplicates)} duplicated, {unexpected} unexpected"
    )
    return not (missing or duplicates or unexpected)


main()
