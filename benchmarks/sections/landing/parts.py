"""The parts that a landing consists of, and what they mean for the targets."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING

from benchmarks.harness.section import markdown_table
from benchmarks.harness.units import GB
from benchmarks.sections.landing import readers
from benchmarks.workers.landing_parts import CALLS, DECODE, SEPARATE, SPEC, TASK, TASK_SPEC, WRITE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.sections.landing.comparison import Comparison
    from benchmarks.servers.replay_client import ReplayServer


def measure_parts(server: ReplayServer, rounds: int) -> dict[str, float]:
    """Return the CPU seconds for 10^9 bytes of record data, by part.

    The task runs in its own process: beside all the pages that the separate parts keep, memory is slower.
    """
    seconds: dict[str, float] = {}
    for kind, spec in (("separate", SPEC), ("task", TASK_SPEC)):
        server.create(spec)
        command = [sys.executable, "-m", "benchmarks.workers.landing_parts", kind, server.url, str(rounds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        server.delete(spec.name)
        seconds |= {part: cpu * GB / spec.data_bytes for part, cpu in json.loads(done.stdout).items()}
    return seconds


def describe_parts(parts: Mapping[str, float], compared: Comparison) -> str:
    """Return the text about the parts of a landing."""
    rows = [[part, f"{seconds:.2f}"] for part, seconds in parts.items()]
    introduction = (
        f"The parts of a landing, in one process without Spark. The first {len(SEPARATE)} were measured "
        "separately, one after the other, over the same pages; the last one over "
        f"{TASK_SPEC.data_bytes / SPEC.data_bytes:.0f} times as many."
    )
    text = [introduction, markdown_table(["part", "CPU s/GB"], rows)]
    bounds = [
        f"{ratio.text()} times less CPU than {name}"
        for name in (readers.DISCARD, readers.SPARK)
        if (ratio := compared.ratio_to_parts(name)) is not None
    ]
    if bounds:
        text.append(
            "Together, the two bare parts of the first table use, round by round, "
            f"{' and '.join(bounds)}. A landing that consists of them cannot do better."
        )
    if readers.LANDING in compared.measured:
        landed = statistics.median(read.cpu_per_gb for read in compared.measured[readers.LANDING].rounds)
        minimum = sum(parts[part] for part in (CALLS, DECODE, WRITE))
        text.append(
            "The calls, the decoders and the Parquet writer are mostly code of other packages. Together "
            f"they use {minimum:.1f} CPU s/GB. A task, which adds checks and Arrow columns, uses "
            f"{parts[TASK] / minimum:.2f} times as much. A landing, which adds Spark's job, the plan and the "
            f"commit, and whose two tasks slow each other down, uses {landed / minimum:.2f} times as much."
        )
    return "\n\n".join(text)
