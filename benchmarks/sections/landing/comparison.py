"""Measure all readers side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.harness.cpu import tree_cpu
from benchmarks.harness.rounds import Input, ReaderRounds, measure_in_turn
from benchmarks.harness.spread import Spread
from benchmarks.harness.units import GB
from benchmarks.sections.landing import readers
from benchmarks.servers.replay_streams import StreamSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.harness.worker import MeasuredRead
    from benchmarks.servers.replay_client import ReplayServer

ROUNDS = 5

WARM_UP = StreamSpec("warm-up", shards=4, pages=1, page_records=1000)
SMALLEST = StreamSpec("orders-least", shards=16, pages=1, page_records=1000)
SMALL = StreamSpec("orders-small", shards=64, pages=1, page_records=1000)
MEDIUM = StreamSpec("orders-middle", shards=128, pages=2, page_records=1000)
LARGE = StreamSpec("orders", shards=128, pages=8, page_records=1000)
"""Records of 1 KB in pages of 1 MB. Our reader paces its calls, so that a shard provides 2 MB per second;
many shards make up for that."""

STREAM_OF = {
    readers.LANDING: LARGE,
    readers.BARE_READ: MEDIUM,
    readers.BARE_WRITE: MEDIUM,
    readers.SPARK: MEDIUM,
    readers.DISCARD: SMALL,
}
"""The streams of the readers that have targets. In a large stream, the fixed cost of a job is a small part of
the total. Readers without such a cost read less. Pages and records are the same in all streams."""


class Comparison:
    """The results of all readers.

    Attributes:
        measured: The rounds by the name of the reader.
        missing: The reasons why readers were not measured, by name.
        server_cpu_per_gb: CPU seconds of the replay server for 10^9 bytes of record data.
    """

    def __init__(
        self, measured: Sequence[ReaderRounds], missing: Mapping[str, str], server_cpu_per_gb: float
    ) -> None:
        self.measured = {reader.name: reader for reader in measured}
        self.missing = missing
        self.server_cpu_per_gb = server_cpu_per_gb

    def ratio(
        self, value: Callable[[MeasuredRead], float], numerator: str, denominator: str
    ) -> Spread | None:
        """Return the ratio of two readers, round by round; None if one of them is missing."""
        if numerator not in self.measured or denominator not in self.measured:
            return None
        pairs = zip(self.measured[numerator].rounds, self.measured[denominator].rounds, strict=True)
        return Spread.of([value(above) / value(below) for above, below in pairs])

    def ratio_to_parts(self, reader: str) -> Spread | None:
        """Return the CPU of a reader relative to the bare parts of a landing, round by round.

        It is None if the reader or one of the parts is missing.
        """
        names = (reader, readers.BARE_READ, readers.BARE_WRITE)
        if not self.measured.keys() >= set(names):
            return None
        rounds = zip(*(self.measured[name].rounds for name in names), strict=True)
        return Spread.of(
            [whole.cpu_per_gb / (read.cpu_per_gb + write.cpu_per_gb) for whole, read, write in rounds]
        )


def compare(server: ReplayServer, *, full: bool) -> Comparison:
    """Measure all readers that are available."""
    other = stream_of_others(full=full)
    streams = (SMALLEST, SMALL, MEDIUM, LARGE)
    for spec in (WARM_UP, *streams):
        server.create(spec)

    def as_input(spec: StreamSpec) -> Input:
        return Input(server.url, spec.name, spec.records, spec.data_bytes)

    peers, missing = readers.available_peers()
    commands = [*readers.OURS, *peers]
    inputs = {command.name: as_input(STREAM_OF.get(command.name, other)) for command in commands}
    before = tree_cpu(server.pid)
    measured, failed = measure_in_turn(commands, as_input(WARM_UP), inputs, ROUNDS)
    served = sum(read.read.bytes for reader in measured for read in reader.rounds)
    served += (ROUNDS + 1) * WARM_UP.data_bytes * len(measured)
    # The bare write reads its stream as well, before it is measured.
    cpu = tree_cpu(server.pid) - before
    for spec in streams:
        server.delete(spec.name)
    return Comparison(measured, missing | failed, cpu / max(1, served) * GB)


def stream_of_others(*, full: bool) -> StreamSpec:
    """Return the stream of the readers that `STREAM_OF` does not list."""
    return SMALL if full else SMALLEST
