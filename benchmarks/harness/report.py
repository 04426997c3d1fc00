"""The report: how it was made, the table of targets, then every section."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.harness.section import Goal, Target, markdown_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.harness.section import Section

_NOTE = (
    "The targets are ratios and counts, measured side by side in one run. Absolute figures depend on the "
    "machine and are for information only."
)

CHARTS = "charts"
"""The folder of the charts, beside the report."""


@dataclass(frozen=True)
class About:
    """How a report was made.

    Attributes:
        command: The command that made it.
        scope: One or more sentences that state what the command measures, and what it leaves out.
        machine: A description of the machine.
        minutes: The time that it took.
    """

    command: str
    scope: str
    machine: str
    minutes: float


def write(folder: Path, sections: Sequence[Section], about: About) -> Path:
    """Write the report and its charts into a folder.

    Returns:
        The file of the report.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for section in sections:
        for chart in section.charts:
            chart.save(folder / CHARTS)
    path = folder / "REPORT.md"
    path.write_text(render(sections, about), encoding="utf-8")
    return path


def render(sections: Sequence[Section], about: About) -> str:
    """Return the report in Markdown."""
    parts = [
        "# Benchmark report",
        f"`{about.command}` wrote this report in {about.minutes:.0f} minutes, on {about.machine}.",
        about.scope,
        _NOTE,
    ]
    if any(section.targets for section in sections):
        parts += ["## Targets", _targets(sections)]
    for section in sections:
        parts += [f"## {section.title}", section.markdown]
        parts += [f"![{chart.caption}]({CHARTS}/{chart.name}.png)" for chart in section.charts]
    return "\n\n".join(parts) + "\n"


def _targets(sections: Sequence[Section]) -> str:
    """Return a row for every goal, whether a section measured it or not."""
    measured = {target.goal: target for section in sections for target in section.targets}
    verdict = {True: "yes", False: "**no**", None: ""}
    rows = []
    for goal in Goal:
        target = measured.get(goal, Target(goal, "not measured", None))
        rows.append([goal.description, target.measured, goal.bound, verdict[target.met]])
    return markdown_table(["measurement", "measured", "target", "met"], rows)
