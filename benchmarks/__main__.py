"""Measure everything, and write REPORT.md."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from benchmarks import aggregates, contention, memory

HERE = Path(__file__).parent
LOCAL = HERE.parent / ".local"

# The embedded stream takes any.
os.environ |= {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}

head = (
    "# What it costs\n\n`make bench` wrote this, on "
    f"{os.cpu_count()} cores of {platform.machine()}, Python {platform.python_version()}. "
    "Ratios are of one run, side by side; absolute figures only inform."
)
peers = LOCAL / "peers"
report = "\n\n".join(
    [head, memory.report(), aggregates.report(peers / "aws-kinesis-agg"), contention.report()]
)
(HERE / "REPORT.md").write_text(report + "\n", encoding="utf-8")
print(report)  # noqa: T201  # for the person who waits
