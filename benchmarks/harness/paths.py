"""The folders that the benchmarks read and write."""

from pathlib import Path

BENCHMARKS = Path(__file__).parent.parent
"""Contains the committed report, `REPORT.md`, and its charts."""

ROOT = BENCHMARKS.parent
"""The root of the project."""

LAST_RUN = ROOT / ".local" / "bench"
"""Contains the report of the last run that was not complete."""
