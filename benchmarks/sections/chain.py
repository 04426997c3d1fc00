"""The size of the positions files of a stream with many shards, for few moving shards and for all."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.data.busy_stream import BusyStream
from benchmarks.harness.section import Goal, Section, Target, markdown_table
from kinesis_assets.table.positions.positions_chain import ChainPolicy
from kinesis_assets.table.raw_table import PositionedTable

SHARDS = 1000
MOVING = (1, 10, 100, 1000)
CYCLE = ChainPolicy().max_files + 1
"""Maximum number of commits from one base file to the next."""

THREE_DAYS = 259_200
"""Number of commits in three days at one per second. Files are kept for this long, whatever their size."""

MAX_BYTES = 10e9


def mean_bytes(shards: int, moving: int, commits: int = CYCLE) -> float:
    """Return the mean size of a positions file over some commits, including base files."""
    with tempfile.TemporaryDirectory() as folder:
        chain = PositionedTable(folder).chain
        stream, newest = BusyStream(shards), None
        for number in range(commits):
            added = stream.advance(moving) if number else {}
            newest = stream.positions(newest, added)
            chain.write(newest)
        return sum(path.stat().st_size for path in Path(folder).rglob("*.json")) / commits


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    del full
    sizes = {moving: mean_bytes(SHARDS, moving) for moving in MOVING}
    text = (
        f"Positions files of a stream with {SHARDS:,} shards. The sequence numbers have the layout that "
        f"Kinesis uses, and are random otherwise. Each mean covers {CYCLE} commits, including base files."
    )
    rows = [
        [f"{moving:,}", f"{size / 1000:.1f}", f"{size * THREE_DAYS / 1e9:.1f}"]
        for moving, size in sizes.items()
    ]
    columns = ["shards that move per commit", "KB per commit", "GB in 3 days at one commit per second"]
    largest = max(sizes.values()) * THREE_DAYS
    return Section(
        "Positions files",
        f"{text}\n\n{markdown_table(columns, rows)}",
        targets=[Target(Goal.CHAIN_BYTES, f"{largest / 1e9:.1f} GB", met=largest <= MAX_BYTES)],
    )
