"""CPU and speed of landing a stream, compared with its bare parts and with other readers in Python."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from benchmarks.harness.charts import bar_chart
from benchmarks.harness.section import Goal, Section, Target, markdown_table
from benchmarks.harness.units import GB
from benchmarks.sections.landing import readers
from benchmarks.sections.landing.comparison import (
    LARGE,
    MEDIUM,
    ROUNDS,
    SMALL,
    Comparison,
    compare,
    stream_of_others,
)
from benchmarks.sections.landing.parts import describe_parts, measure_parts
from benchmarks.servers.replay_client import replay_server
from kinesis_assets.table.data_file import NEW_FILES

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.harness.rounds import ReaderRounds
    from benchmarks.harness.spread import Spread
    from benchmarks.harness.worker import MeasuredRead

SHARD_BYTES_PER_SECOND = 2_000_000
"""The read throughput of a shard."""

DLT_BY_HAND = "dlt read 5,200 records per second when it was last measured by hand (dlt 1.x, in another run)"


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    with replay_server() as server:
        compared = compare(server, full=full)
        parts = measure_parts(server, ROUNDS)
    charts = []
    if compared.measured:
        values = {name: reader.cpu_per_gb for name, reader in compared.measured.items()}
        caption = "CPU seconds per GB of record data; the lines extend from the lowest to the highest round"
        label = "CPU seconds per GB of record data"
        charts.append(bar_chart("landing", caption, label, values, ours=readers.LANDING))
    return Section(
        "Landing, compared with other readers in Python",
        f"{_describe(compared, full=full)}\n\n{describe_parts(parts, compared)}",
        targets(compared),
        charts,
    )


def targets(compared: Comparison) -> list[Target]:
    """Return the results for the goals of this section."""

    def target(goal: Goal, ratio: Spread | None, met: Callable[[float], bool]) -> Target:
        if ratio is None:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in compared.missing.items())
            return Target(goal, f"not measured: {reasons}", None)
        return Target(goal, f"{ratio.text(2)}x", met(ratio.median))

    def cpu(read: MeasuredRead) -> float:
        return read.cpu_per_gb

    def speed(read: MeasuredRead) -> float:
        return read.records_per_second

    results = [
        target(
            Goal.LESS_THAN_DISCARD,
            compared.ratio(cpu, readers.DISCARD, readers.LANDING),
            lambda ratio: ratio >= 5,  # noqa: PLR2004  # the bound of the goal, likewise below
        ),
        target(
            Goal.LESS_THAN_SPARK,
            compared.ratio(cpu, readers.SPARK, readers.LANDING),
            lambda ratio: ratio >= 6.5,  # noqa: PLR2004
        ),
        target(
            Goal.OVERHEAD,
            compared.ratio_to_parts(readers.LANDING),
            lambda ratio: ratio <= 1.25,  # noqa: PLR2004
        ),
    ]
    dlt = target(
        Goal.FASTER_THAN_DLT,
        compared.ratio(speed, readers.LANDING, readers.DLT),
        lambda ratio: ratio >= 25,  # noqa: PLR2004
    )
    if readers.DLT in compared.missing and readers.LANDING in compared.measured:
        ours = compared.measured[readers.LANDING].records_per_second.text(0)
        dlt = Target(
            Goal.FASTER_THAN_DLT,
            f"{ours} records per second; dlt is not installed here, {DLT_BY_HAND}",
            None,
        )
    return [*results, dlt]


def _describe(compared: Comparison, *, full: bool) -> str:
    others = stream_of_others(full=full)
    columns = ["reader", "CPU s/GB", "records/s", "written, bytes/record", "codec", "start-up, CPU s"]
    rows = [_row(reader) for reader in compared.measured.values()]
    text = (
        f"A replay server on the loopback provides records of {LARGE.record_bytes} bytes (orders in JSON, "
        f"which zstd compresses to a third) in pages of {LARGE.page_records}: {LARGE.data_bytes / 1e6:,.0f} "
        f"MB in {LARGE.shards} shards for a landing, {MEDIUM.data_bytes / 1e6:,.0f} MB for its bare parts "
        f"and for Spark, {SMALL.data_bytes / 1e6:,.0f} MB for the loop that discards records, and "
        f"{others.data_bytes / 1e6:,.0f} MB in {others.shards} shards for the other readers. The figures are "
        f"the median of {ROUNDS} rounds, in each of which the readers run one after the other, with the "
        "lowest and the highest. CPU is that of the whole process tree, including the JVM and Python "
        "workers. The processes keep running, and each reads a small stream as a warm-up before it is "
        "measured. Start-up is listed separately and is not included. A landing runs two tasks at once, so "
        "its bare parts run in two processes. Before each measurement, free memory that the host of a "
        "virtual machine has taken back is reclaimed (benchmarks/harness/host_memory.py), because a reader "
        f"that writes files would pay for it otherwise. The server used {compared.server_cpu_per_gb:.2f} CPU "
        f"s/GB, which no figure includes. A landing writes {NEW_FILES.name}. The peers run in their own "
        f"environments: {readers.versions(compared.missing)}. Those with boto3 are scripts in "
        "benchmarks/peers."
    )
    paragraphs = [text, markdown_table(columns, rows)]
    if readers.LANDING in compared.measured:
        cost = statistics.median(read.cpu_per_gb for read in compared.measured[readers.LANDING].rounds)
        paragraphs.append(
            f"At {cost:.1f} CPU s/GB, one core lands {GB / SHARD_BYTES_PER_SECOND / cost:.0f} shards that "
            "all provide the 2 MB per second that Kinesis allows."
        )
    paragraphs += [f"Not measured: {name}: {reason}." for name, reason in compared.missing.items()]
    return "\n\n".join(paragraphs)


def _row(reader: ReaderRounds) -> list[str]:
    last = reader.rounds[-1]
    return [
        reader.name,
        reader.cpu_per_gb.text(),
        reader.records_per_second.text(0),
        f"{last.written / last.read.records:,.0f}" if last.written else "",
        ", ".join(sorted(last.codecs)),
        f"{reader.start_up.cpu:.1f}",
    ]
