"""The charts of the report: bars with their spread, and growth curves with their exponents."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from benchmarks.harness.spread import Spread

_OURS, _OTHERS = "#c2410c", "#64748b"


@dataclass(frozen=True)
class Chart:
    """A chart that is not yet saved.

    Attributes:
        name: Name of its file, without the suffix.
        caption: The text below it.
        figure: The drawing.
    """

    name: str
    caption: str
    figure: Figure

    def save(self, folder: Path) -> Path:
        """Save the chart as a PNG file in a folder."""
        folder.mkdir(exist_ok=True)
        path = folder / f"{self.name}.png"
        # Without the version of the library, the same numbers give the same file.
        self.figure.savefig(path, dpi=110, bbox_inches="tight", metadata={"Software": None})
        return path


def bar_chart(name: str, caption: str, label: str, values: Mapping[str, Spread], *, ours: str) -> Chart:
    """Draw a bar for each value, in ascending order, with an error bar from its lowest to its highest round.

    Args:
        name: Name of the file, without the suffix.
        caption: The text below the chart.
        label: Label of the axis, with the unit.
        values: The values by the names of the bars.
        ours: The name of the bar to highlight.
    """
    ordered = sorted(values.items(), key=lambda item: -item[1].median)
    figure = Figure(figsize=(9, 0.6 + 0.45 * len(ordered)))
    axes = figure.subplots()
    for row, (bar, spread) in enumerate(ordered):
        errors = [[spread.median - spread.low], [spread.high - spread.median]]
        axes.barh(row, spread.median, xerr=errors, color=_OURS if bar == ours else _OTHERS, capsize=3)
        axes.text(spread.high, row, f"  {spread.median:,.1f}", va="center")
    axes.set_yticks(range(len(ordered)), [bar for bar, _ in ordered])
    axes.set_xlabel(label)
    axes.margins(x=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    return Chart(name, caption, figure)


def growth_chart(
    name: str, caption: str, x_label: str, y_label: str, curves: Mapping[str, Sequence[tuple[float, float]]]
) -> tuple[Chart, dict[str, float]]:
    """Draw growth curves on logarithmic axes; the title states the exponent of each.

    Args:
        name: Name of the file, without the suffix.
        caption: The text below the chart.
        x_label: Label of the x-axis: the quantity that grows.
        y_label: Label of the y-axis, with the unit.
        curves: Points by the name of the curve, with at least two different x values, all above 0.

    Returns:
        The chart, and the exponents by curve.
    """
    exponents = {curve: exponent(points) for curve, points in curves.items()}
    figure = Figure(figsize=(7, 4.5))
    axes = figure.subplots()
    for curve, points in curves.items():
        xs, ys = zip(*sorted(points), strict=True)
        axes.loglog(xs, ys, marker="o", label=curve)
    listed = ", ".join(f"{curve} {value:.2f}" for curve, value in exponents.items())
    axes.set_title(f"exponent: {listed}", fontsize=10)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    if len(curves) > 1:
        axes.legend()
    axes.spines[["top", "right"]].set_visible(False)
    return Chart(name, caption, figure), exponents


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the regression line through the logarithms: 0 is constant, 1 is linear."""
    xs, ys = ([math.log(value) for value in values] for values in zip(*points, strict=True))
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return covariance / sum((x - mean_x) ** 2 for x in xs)
