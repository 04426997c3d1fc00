"""The report: the table of targets, then every section."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.section import Goal, Target, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.harness.section import Section

REPORT = Path(__file__).parent.parent / "REPORT.md"


def render(sections: Sequence[Section], *, machine: str, command: str, minutes: float) -> str:
    """The whole report in Markdown.

    Args:
        sections: In their order.
        machine: What it was measured on.
        command: What wrote it.
        minutes: That it took.
    """
    head = (
        "# What it costs\n\n"
        f"`{command}` wrote this in {minutes:.0f} minutes, on {machine}. The targets are ratios and counts "
        "of one run, side by side; absolute figures only inform."
    )
    parts = [head]
    if any(section.targets for section in sections):
        parts += ["## Targets", targets(sections)]
    for section in sections:
        parts += [f"## {section.title}", section.markdown]
        for caption, path in section.charts.items():
            parts.append(f"![{caption}]({path.relative_to(REPORT.parent)})")
    return "\n\n".join(parts) + "\n"


def targets(sections: Sequence[Section]) -> str:
    """Every goal, whether a section measured it or not."""
    told = {target.goal: target for section in sections for target in section.targets}
    verdict = {True: "yes", False: "**no**", None: ""}
    rows = []
    for goal in Goal:
        target = told.get(goal, Target(goal, "not measured", None))
        rows.append([goal.what, target.measured, goal.target, verdict[target.met]])
    return table(["what", "measured", "target", "met"], rows)
