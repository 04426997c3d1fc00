"""The figures of docs/cost.md and docs/comparison.md are those of the benchmark report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.__main__ import FULL_MODULES, MODULES

PROJECT = Path(__file__).parents[2]
REPORT = (PROJECT / "benchmarks" / "REPORT.md").read_text()
PAGES = {
    name: (PROJECT / "docs" / name).read_text() for name in ("cost.md", "comparison.md", "kubernetes.md")
}
MEASURED = re.findall(
    r"^\| .* \| ([\d.]+) (.+?) \| `python -m benchmarks \w+` \|$", PAGES["cost.md"], re.MULTILINE
)


@pytest.mark.parametrize("name", ["cost.md", "comparison.md"])
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


@pytest.mark.parametrize(
    ("name", "on_the_page", "in_the_report"),
    [
        ("cost.md", r"7\.8 CPU s/GB\D+64 shards", r"7\.8 CPU s/GB\D+64 shards"),
        ("cost.md", r"\b5\.2 CPU s", r"\| kinesis_assets: HTTP to committed Delta \| 7\.8 .*\| 5\.2 \|$"),
        ("cost.md", r"\b159 MiB\b", r"peak memory of a task.*\| 159 MiB\b"),
        ("kubernetes.md", r"\b159 MiB\b", r"peak memory of a task.*\| 159 MiB\b"),
        ("cost.md", r"\b19 s\b.*\b30\.0 s\b", r"1,000 shards.*\| 30\.0 .*\b19 s\b"),
        ("comparison.md", r"\b1\.04 s\b", r"put to raw row, p95 \| 1\.04 "),
        ("comparison.md", r"\| 221,868 \|", r"\| kinesis_assets: .* \| 221,868 "),
        ("comparison.md", r"\| 5,235 \|", r"\| dlt Kinesis source to Parquet \| .* \| 5,235 "),
    ],
)
def test_the_text_repeats_figures_of_the_report(name: str, on_the_page: str, in_the_report: str) -> None:
    assert re.search(on_the_page, PAGES[name])
    assert re.search(in_the_report, REPORT, re.MULTILINE)
