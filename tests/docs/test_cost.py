"""The figures of docs/cost.md and docs/comparison.md are those of the benchmark report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.__main__ import FULL_MODULES, MODULES

PROJECT = Path(__file__).parents[2]
REPORT = (PROJECT / "benchmarks" / "REPORT.md").read_text()
PAGES = {name: (PROJECT / "docs" / name).read_text() for name in ("cost.md", "comparison.md")}
MEASURED = re.findall(
    r"^\| .* \| ([\d.]+) (.+?) \| `python -m benchmarks \w+` \|$", PAGES["cost.md"], re.MULTILINE
)


@pytest.mark.parametrize("name", PAGES)
def test_the_commands_measure_sections(name: str) -> None:
    sections = re.findall(r"`(FULL=1 )?python -m benchmarks (\w+)`", PAGES[name])
    assert sections
    assert all(section in (MODULES + FULL_MODULES if full else MODULES) for full, section in sections)


def test_the_table_has_figures() -> None:
    assert len(MEASURED) == 6


@pytest.mark.parametrize(("figure", "unit"), MEASURED)
def test_a_figure_is_in_the_report(figure: str, unit: str) -> None:
    place = {
        "CPU s/GB": rf"\| {figure} \(",
        "ms": rf"\b{figure} (\([^)]*\) )?ms",
        "of a core": rf"\| {figure} \(",
    }[unit]
    assert re.search(place, REPORT)


def test_the_sentences_repeat_figures_of_the_report() -> None:
    assert "At 8.0 CPU s/GB, one core lands 62 shards that all provide the 2 MB per second" in REPORT
    assert re.search(
        r"\| kinesis_assets: HTTP to committed Delta \| 8\.0 .*\| 7\.9 \|$", REPORT, re.MULTILINE
    )
    assert "188 MiB (aggregates of 8 MiB" in REPORT
    assert (
        "41.1 (39.8 to 48.5) s including the start of all processes, 25 s of them Dagster's events" in REPORT
    )
    assert re.search(r"put to raw row, p95 \| 1\.09 ", REPORT)
    assert re.search(r"\| kinesis_assets: .* \| 215,501 ", REPORT)
    assert re.search(r"\| dlt Kinesis source to Parquet \| .* \| 4,911 ", REPORT)
