"""A soak: `python tests/soak --minutes 30`.

A producer at a steady rate, a reshard a minute, a record distribution strategy that changes, faults, kills
and a slow store; two deployments of Dagster on one table, of which one follows the stream. At the end the
table must hold what was acknowledged, each record once; the exit code says so.
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
from producer import BATCHES_A_SECOND, OnDemandStream, Producer, every

from benchmarks.servers.slow_bucket import slow_bucket
from kinesis_assets.testing import Faults, LocalKinesis, aws_environment

mpl.use("Agg")
from matplotlib import pyplot as plt

PROJECT = Path(__file__).parents[2]
SCRIPT = Path(sys.prefix, "bin", "kinesis-assets")
STREAM = "soak"
SECONDS_BETWEEN_KILLS = 10
SECONDS_BETWEEN_FAULTS = 3
SECONDS_BETWEEN_RESHARDS = 60
SECONDS_BETWEEN_STRATEGIES = 25
SECONDS_IN_A_ROW = 60
"""One deployment's processes are killed for so long, then the other's. A run that starts cold takes longer
than the next kill is away: with both under fire nothing would ever land."""

FOLLOW_FOR = 25.0
"""Seconds that a run of the second deployment stays: it is killed in it, or lands again and again."""

MINUTES_TO_CATCH_UP = 10


def one_fault(faults: Faults, chance: random.Random) -> None:
    """The next calls are bent. Those that nobody met yet are taken back, or they would gather for one run."""
    faults.clear()
    chance.choice(
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
    """(shard id, sequence number, data) of every row."""
    names = ["shard_id", "sequence_number", "data"]
    columns = DeltaTable(table).to_pyarrow_table(columns=names)
    return list(zip(*(columns[name].to_pylist() for name in names), strict=True))


def count(table: str) -> int:
    return int(DeltaTable(table).count()) if DeltaTable.is_deltatable(table) else 0


def plot(points: list[dict[str, float]], file: Path) -> None:
    figure, (above, below) = plt.subplots(2, sharex=True, figsize=(9, 6))
    minutes = [point["minute"] for point in points]
    for name in ("rows in", "rows in table"):
        above.plot(minutes, [point[name] for point in points], label=name)
    for name in ("kills", "conflicts"):
        below.plot(minutes, [point[name] for point in points], label=name)
    for axes in (above, below):
        axes.legend()
        axes.set_ylim(bottom=0)
    below.set_xlabel("minutes")
    figure.savefig(file)


def catch_up(place: list[str]) -> None:
    """Run through the command line until nothing is behind."""
    deadline = time.monotonic() + MINUTES_TO_CATCH_UP * 60
    while True:
        done = subprocess.run([SCRIPT, "run", *place, "--json"], check=False, capture_output=True, text=True)
        shards = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode == 0 and not any(shard["lag_ms"] for shard in shards):
            return
        if time.monotonic() > deadline:
            sys.exit(f"the stream cannot be caught up with: {done.stdout}{done.stderr}")


class Soak:
    """Everything that happens at once, and what was seen of it.

    Attributes:
        points: What each minute was like.
        kills: By what was killed.
        reshards: How many.
        failures: What went wrong with the soak itself.
        deployments: Both; the second one follows.
    """

    def __init__(
        self, local: LocalKinesis, faults: Faults, folder: Path, table: str, rate: int, seed: int
    ) -> None:
        self.table = table
        self.place = ["--stream", STREAM, "--table", table]
        self.place += ["--endpoint-url", local.endpoint_url, "--region", local.region]
        self.points: list[dict[str, float]] = []
        self.kills: Counter[str] = Counter()
        self.reshards = 0
        self.failures: list[str] = []
        self._faults = faults
        chances = [random.Random(seed + number) for number in range(4)]
        self._chances = chances[1:3]
        client: Any = partial(
            boto3.client, "kinesis", endpoint_url=local.endpoint_url, region_name=local.region
        )
        self._stream = OnDemandStream(client(), STREAM, chances[3])
        no_retries = Config(retries={"total_max_attempts": 1})
        self.producer = Producer(client(config=no_retries), STREAM, rate, chances[0])
        self.deployments = [
            Deployment(
                folder / name,
                PROJECT,
                stream=STREAM,
                table=table,
                endpoint=local.endpoint_url,
                follow_for=follow_for,
            )
            for name, follow_for in (("one", None), ("other", FOLLOW_FOR))
        ]

    def go_on_for(self, minutes: int) -> None:
        """Let it all happen, with a line a minute."""
        stopped = threading.Event()
        again = partial(every, stopped=stopped, failures=self.failures)
        threads = [
            again(1 / BATCHES_A_SECOND, self.producer.produce),
            again(SECONDS_BETWEEN_FAULTS, partial(one_fault, self._faults, self._chances[0])),
            again(SECONDS_BETWEEN_KILLS, self._kill),
            again(SECONDS_BETWEEN_RESHARDS, self._reshard),
            again(SECONDS_BETWEEN_STRATEGIES, self._switch_strategy),
            again(1, lambda: [deployment.keep_up() for deployment in self.deployments]),
        ]
        try:
            began = time.monotonic()
            for minute in range(1, minutes + 1):
                time.sleep(max(0.0, began + minute * 60 - time.monotonic()))
                self.note(minute)
        finally:
            stopped.set()
            for thread in threads:
                thread.join()
            for deployment in self.deployments:
                deployment.end()
            self._faults.clear()

    def note(self, minute: int) -> None:
        """Look, and print it."""
        put, landed = len(self.producer.acknowledged), count(self.table)
        point = {
            "minute": minute,
            "rows in": put,
            "rows in table": landed,
            "lag": put - landed,
            "kills": self.kills.total(),
            "conflicts": sum(deployment.conflicts() for deployment in self.deployments),
        }
        self.points.append(point)
        click.echo(", ".join(f"{name} {value}" for name, value in point.items()))

    def _kill(self) -> None:
        turn = int(time.monotonic()) // SECONDS_IN_A_ROW
        kind = kill_one(self.deployments[turn % len(self.deployments)], self._chances[1])
        if kind:
            self.kills[kind] += 1

    def _reshard(self) -> None:
        click.echo(self._stream.reshard())
        self.reshards += 1

    def _switch_strategy(self) -> None:
        self.producer.needs_keys = self._stream.switch_strategy()

    def examined(self) -> bool:
        """Whether the doctor finds no problem, with each deployment's events."""
        return all(
            subprocess.run(
                [SCRIPT, "doctor", *self.place, "--rows"],
                env=os.environ | {"DAGSTER_HOME": str(deployment.home)},
                check=False,
            ).returncode
            == 0
            for deployment in self.deployments
        )

    def really_soaked(self) -> bool:
        """Whether all that was to happen did; printed if not."""
        happened = {
            "records": len(self.producer.acknowledged),
            "records without a partition key": self.producer.keyless,
            "reshards": self.reshards,
            "kills": self.kills.total(),
        }
        most = self.deployments[1].most_commits_of_a_run()  # kills may leave no run time for a second one
        click.echo(f"happened {happened}, most commits of a run {most}, failed {self.failures}")
        return all(happened.values()) and not self.failures


@click.command()
@click.option("--minutes", default=30, show_default=True)
@click.option("--rate", default=200, show_default=True, help="Records a second.")
@click.option("--latency", default=20, show_default=True, help="Milliseconds of each request to the store.")
@click.option("--seed", type=int, help="Of what happens when; drawn by default.")
def main(minutes: int, rate: int, latency: int, seed: int | None) -> None:
    """Soak for so many minutes; exit 0 if the table then holds what was acknowledged."""
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
        soak.go_on_for(minutes)
        click.echo(f"killed {dict(soak.kills)}; catching up")
        catch_up(soak.place)
        soak.note(minutes + 1)
        plot(soak.points, folder / "soak.png")
        well = holds_exactly(rows(soak.table), soak.producer)
        sys.exit(0 if well and soak.really_soaked() and soak.examined() else 1)


def holds_exactly(found: list[tuple[str, str, bytes]], producer: Producer) -> bool:
    """Whether the table holds what was acknowledged, each record once; printed."""
    wanted, there = Counter(producer.acknowledged), Counter(found)
    lost, more = wanted - there, there - wanted
    # A put whose answer was lost may be in the stream; then it is in the table, once.
    unsure = [row for row in more if row[2] in producer.unsure]
    twice = [row for row, times in there.items() if times > 1]
    wrong = more.total() - len(unsure)
    click.echo(
        f"{wanted.total()} acknowledged, {len(unsure)} more whose answer was lost; "
        f"lost {lost.total()}, twice {len(twice)}, from nowhere {wrong}"
    )
    return not (lost or twice or wrong)


main()
