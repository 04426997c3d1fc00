"""What derived tables cost: new rows below large tables, typed tables from several formats, and upserts."""

from __future__ import annotations

from benchmarks.harness.section import Section
from benchmarks.sections.derived import formats, increments, routes, typed, upserts
from benchmarks.sections.derived.workers import OURS, versions, workers


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    with workers() as running:
        added = increments.measure(running.running[OURS], rounds=9 if full else 5)
        decoded = typed.measure(running, records=256_000 if full else 64_000, rounds=3 if full else 2)
        routed = routes.measure(
            running.running[OURS], records=1_024_000 if full else 256_000, rounds=3 if full else 2
        )
        encoded = formats.measure(
            running.running[OURS], orders=256_000 if full else 128_000, rounds=5 if full else 3
        )
        upserted = upserts.measure(running, files=40 if full else 4, rounds=2)
        missing = running.missing
    introduction = (
        "All figures are those of warm Spark sessions with two cores, with CPU of the whole process tree. "
        f"delta-spark runs in an environment of its own, {versions()}, with 4 shuffle partitions, because "
        "Spark's default, 200, is slower for so few rows."
    )
    parts = [
        introduction,
        added.describe(),
        decoded.describe(),
        routed.describe(),
        encoded.describe(),
        upserted.describe(),
    ]
    if missing:
        parts.append(f"delta-spark was not measured: {missing}.")
    targets = [
        added.target(),
        decoded.target(missing),
        routed.target(),
        *encoded.targets(),
        *upserted.targets(missing),
    ]
    return Section("Derived tables", "\n\n".join(parts), targets)
