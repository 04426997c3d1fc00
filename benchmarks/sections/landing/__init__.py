"""CPU and speed of landing a stream, beside its bare parts and beside other readers in Python."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from benchmarks.harness.charts import bars
from benchmarks.harness.measure import GB, Input, Measured, Spread, interleaved, tree_cpu
from benchmarks.harness.section import Goal, Section, Target, table
from benchmarks.sections.landing import readers
from benchmarks.servers.replay_client import replay_server
from benchmarks.servers.replay_streams import StreamSpec
from benchmarks.workers.landing_parts import ALL, ALONE, CALLS, DECODE, SPEC, WHOLE, WRITE, parts
from kinesis_assets.table.data_file import CODEC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.harness.measure import Work
    from benchmarks.servers.replay_client import ReplayServer

ROUNDS = 5

WARM_UP = StreamSpec("warm-up", shards=4, pages=1, page_records=1000)
LEAST = StreamSpec("orders-least", shards=16, pages=1, page_records=1000)
SMALL = StreamSpec("orders-small", shards=64, pages=1, page_records=1000)
MIDDLE = StreamSpec("orders-middle", shards=128, pages=2, page_records=1000)
LARGE = StreamSpec("orders", shards=128, pages=8, page_records=1000)
"""In pages of a MB, 1 KB records. Each shard gives 2 MB a second to who paces as we do, so there are many."""

READ_BY = {
    readers.LANDING: LARGE,
    readers.BARE_READ: MIDDLE,
    readers.BARE_WRITE: MIDDLE,
    readers.SPARK: MIDDLE,
    readers.DISCARD: SMALL,
}
"""What a job costs beside its records is small in a large stream; the others have next to no such cost, and
read the least, or seconds' worth where a target hangs on it. Pages and records are alike in all of them."""

SHARD_LIMIT = 2_000_000
"""Bytes a second that a shard gives."""

DLT_BY_HAND = "5,200 records a second when it was last measured by hand (dlt 1.x, another run)"


class Comparison:
    """What was measured of all readers.

    Attributes:
        measured: By reader's name.
        missing: By reader's name, why it was not.
        server_cpu_per_gb: CPU seconds that the replay server had for 10^9 bytes of record data.
    """

    def __init__(
        self, measured: Sequence[Measured], missing: Mapping[str, str], server_cpu_per_gb: float
    ) -> None:
        self.measured = {each.name: each for each in measured}
        self.missing = missing
        self.server_cpu_per_gb = server_cpu_per_gb

    def ratio(self, of: Callable[[Work], float], over: str, under: str) -> Spread | None:
        """Reader `over` divided by reader `under`, round by round; None if one of them is missing."""
        if over not in self.measured or under not in self.measured:
            return None
        pairs = zip(self.measured[over].rounds, self.measured[under].rounds, strict=True)
        return Spread.of([of(above) / of(below) for above, below in pairs])

    def over_parts(self, reader: str) -> Spread | None:
        """A reader's CPU divided by that of landing's bare parts, round by round; None if one is missing."""
        names = (reader, readers.BARE_READ, readers.BARE_WRITE)
        if not self.measured.keys() >= set(names):
            return None
        rounds = zip(*(self.measured[name].rounds for name in names), strict=True)
        return Spread.of(
            [work.cpu_per_gb / (read.cpu_per_gb + write.cpu_per_gb) for work, read, write in rounds]
        )


def compare(server: ReplayServer, *, full: bool) -> Comparison:
    """Measure every reader that can be had."""
    others = _others(full=full)
    streams = (LEAST, SMALL, MIDDLE, LARGE)
    for spec in (WARM_UP, *streams):
        server.create(spec)

    def given(spec: StreamSpec) -> Input:
        return Input(server.url, spec.name, spec.records, spec.data_bytes)

    peers, missing = readers.peers()
    commands = [*readers.OURS, *peers]
    inputs = {command.name: given(READ_BY.get(command.name, others)) for command in commands}
    before = tree_cpu(server.pid)
    measured, failed = interleaved(commands, given(WARM_UP), inputs, ROUNDS)
    served = sum(work.read.bytes for each in measured for work in each.rounds)
    served += (ROUNDS + 1) * WARM_UP.data_bytes * len(measured)
    # The bare write reads its stream too, before it is measured.
    cpu = tree_cpu(server.pid) - before
    for spec in streams:
        server.delete(spec.name)
    return Comparison(measured, missing | failed, cpu / max(1, served) * GB)


def _others(*, full: bool) -> StreamSpec:
    """What they read who are not named in `READ_BY`."""
    return SMALL if full else LEAST


def targets(compared: Comparison) -> list[Target]:
    """What the comparison says of the goals."""

    def row(goal: Goal, ratio: Spread | None, met: Callable[[float], bool]) -> Target:
        if ratio is None:
            gone = "; ".join(f"{name}: {reason}" for name, reason in compared.missing.items())
            return Target(goal, f"not measured: {gone}", None)
        return Target(goal, f"{ratio.text(2)}x", met(ratio.median))

    def cpu(work: Work) -> float:
        return work.cpu_per_gb

    def speed(work: Work) -> float:
        return work.records_per_second

    rows = [
        row(
            Goal.LESS_THAN_DISCARD,
            compared.ratio(cpu, readers.DISCARD, readers.LANDING),
            lambda times: times >= 5,  # noqa: PLR2004  # the goal's own number, likewise below
        ),
        row(
            Goal.LESS_THAN_SPARK,
            compared.ratio(cpu, readers.SPARK, readers.LANDING),
            lambda times: times >= 6.5,  # noqa: PLR2004
        ),
        row(Goal.OVERHEAD, compared.over_parts(readers.LANDING), lambda times: times <= 1.25),  # noqa: PLR2004
    ]
    dlt = row(
        Goal.FASTER_THAN_DLT,
        compared.ratio(speed, readers.LANDING, readers.DLT),
        lambda times: times >= 25,  # noqa: PLR2004
    )
    if readers.DLT in compared.missing and readers.LANDING in compared.measured:
        ours = compared.measured[readers.LANDING].records_per_second.text(0)
        dlt = Target(Goal.FASTER_THAN_DLT, f"{ours} records a second; dlt not here, {DLT_BY_HAND}", None)
    return [*rows, dlt]


def section(full: bool) -> Section:
    """Measure, and tell."""
    with replay_server() as server:
        compared = compare(server, full=full)
        of_parts = parts(server, ROUNDS)
    measured = compared.measured
    chart = {}
    if measured:
        values = {name: each.cpu_per_gb for name, each in measured.items()}
        path = bars("landing", "CPU seconds for a GB of record data", values, ours=readers.LANDING)
        chart = {"CPU seconds for a GB of record data; lines from the lowest round to the highest": path}
    return Section(
        "Landing, and other readers in Python",
        f"{_text(compared, full=full)}\n\n{_about_parts(of_parts, compared)}",
        targets(compared),
        chart,
    )


def _about_parts(of: Mapping[str, float], compared: Comparison) -> str:
    """What landing consists of, and what that means for the targets."""
    rows = [[part, f"{seconds:.2f}"] for part, seconds in of.items()]
    what = (
        f"What a landing consists of, in one process without Spark: the first {len(ALONE)} each alone, one "
        "after the other, over the same pages; all of it over "
        f"{WHOLE.data_bytes / SPEC.data_bytes:.0f} times as many."
    )
    text = [what, table(["part", "CPU s/GB"], rows)]
    bounds = [
        f"{times.text()} times less than {name}"
        for name in (readers.DISCARD, readers.SPARK)
        if (times := compared.over_parts(name)) is not None
    ]
    if bounds:
        text.append(
            "The two bare parts of the first table, round by round, have together "
            f"{' and '.join(bounds)}: no landing that consists of them is better than that."
        )
    if readers.LANDING in compared.measured:
        landed = statistics.median(work.cpu_per_gb for work in compared.measured[readers.LANDING].rounds)
        least = sum(of[part] for part in (CALLS, DECODE, WRITE))
        text.append(
            "The calls, the decoders and the Parquet writer, hardly this package's own, have "
            f"{least:.1f} together. A task, with checks, columns and all between, has {of[ALL] / least:.2f} "
            f"times that; a landing, whose two tasks slow each other down, with Spark's job, the plan and "
            f"the commit, {landed / least:.2f} times."
        )
    return "\n\n".join(text)


def _text(compared: Comparison, *, full: bool) -> str:
    others = _others(full=full)
    columns = ["reader", "CPU s/GB", "records/s", "written, bytes/record", "codec", "start-up, CPU s"]
    rows = [_row(each) for each in compared.measured.values()]
    what = (
        f"Records of {LARGE.record_bytes} bytes (JSON of orders, a third of its size under zstd) from a "
        f"replay server on the loopback, {LARGE.data_bytes / 1e6:,.0f} MB in {LARGE.shards} shards for ours, "
        f"{MIDDLE.data_bytes / 1e6:,.0f} MB for its parts and for Spark, {SMALL.data_bytes / 1e6:,.0f} MB "
        f"for the loop that discards, {others.data_bytes / 1e6:,.0f} MB in {others.shards} for the others, "
        f"in pages of {LARGE.page_records}. Median of {ROUNDS} rounds, one reader after the other in each, "
        "with the lowest and the highest. CPU is of the whole process tree, JVM and Python workers included, "
        "in processes that stay, each warmed up by a small stream just before; start-up is beside it and not "
        "in it. A landing has two tasks at once, so its bare parts have two processes. Free memory that a "
        "virtual machine's host has taken back is had again before each order "
        "(benchmarks/host_memory.py), or who writes files would pay for it. The server had "
        f"{compared.server_cpu_per_gb:.2f} CPU s/GB of its own, in none of the figures. "
        f"Ours writes {CODEC}. Peers, in environments of their own: {readers.versions(compared.missing)}; "
        "the boto3 ones are written here, in benchmarks/peers."
    )
    text = [what, table(columns, rows)]
    if readers.LANDING in compared.measured:
        cost = statistics.median(work.cpu_per_gb for work in compared.measured[readers.LANDING].rounds)
        text.append(
            f"At {cost:.1f} CPU s/GB a core lands {GB / SHARD_LIMIT / cost:.0f} shards that all give the "
            "2 MB a second that Kinesis allows them."
        )
    text += [f"Not measured: {name}: {reason}." for name, reason in compared.missing.items()]
    return "\n\n".join(text)


def _row(each: Measured) -> list[str]:
    last = each.rounds[-1]
    return [
        each.name,
        each.cpu_per_gb.text(),
        each.records_per_second.text(0),
        f"{last.written / last.read.records:,.0f}" if last.written else "",
        ", ".join(sorted(last.codecs)),
        f"{each.startup.cpu:.1f}",
    ]
