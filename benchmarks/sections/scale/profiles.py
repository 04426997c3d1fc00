"""CPU profiles of a task with large and with small pages, and of a run over idle shards."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from benchmarks.harness.cpu_profile import hottest, profile
from benchmarks.harness.single_process import prepare_landing, run
from benchmarks.sections.scale.idle_shards import IDLE
from benchmarks.servers.replay_streams import StreamSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.servers.replay_client import ReplayServer

BACKLOGS = [
    StreamSpec(f"profiled-{records}", shards=64, pages=pages, page_records=records)
    for records, pages in ((1000, 4), (100, 20))
]


def measure(server: ReplayServer) -> dict[str, Mapping[str, float]]:
    """Return CPU seconds by location for each profiled piece of work."""
    profiles: dict[str, Mapping[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for spec in BACKLOGS:
            server.create(spec)
            _, seconds = profile(prepare_landing(server.url, spec.name, f"{folder}/{spec.name}"))
            profiles[f"a task, pages of {spec.page_records:,} records"] = seconds
            server.delete(spec.name)
        server.create(IDLE)
        run(server.url, IDLE.name, f"{folder}/idle")
        _, seconds = profile(lambda: run(server.url, IDLE.name, f"{folder}/idle"))
        profiles["a run over idle shards"] = seconds
        server.delete(IDLE.name)
    return profiles


def describe(profiles: Mapping[str, Mapping[str, float]]) -> str:
    """Return the text of the report."""
    lines = "\n".join(
        f"- {work}: {'; '.join(f'{location} {share:.0%}' for location, share in hottest(seconds))}."
        for work, seconds in profiles.items()
    )
    return (
        "CPU by function, from samples of all threads, without Spark and Dagster. CPU that a thread uses "
        f"just before it waits is attributed to the function that waits:\n\n{lines}"
    )
