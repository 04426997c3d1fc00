"""The charts of the report: bars with their spread, and growth curves with their exponents."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.harness.measure import Spread

CHARTS = Path(__file__).parent.parent / "charts"
_OURS, _OTHERS = "#c2410c", "#64748b"


def bars(name: str, label: str, values: Mapping[str, Spread], *, ours: str) -> Path:
    """A bar for each name, from the lowest to the highest, with lines from its lowest round to its highest.

    Args:
        name: Of the file, without its ending.
        label: Of the axis, with the unit.
        values: By what is named beside the bar.
        ours: Which of them is ours.
    """
    ordered = sorted(values.items(), key=lambda item: -item[1].median)
    figure = Figure(figsize=(9, 0.6 + 0.45 * len(ordered)))
    axes = figure.subplots()
    for row, (who, spread) in enumerate(ordered):
        around = [[spread.median - spread.low], [spread.high - spread.median]]
        axes.barh(row, spread.median, xerr=around, color=_OURS if who == ours else _OTHERS, capsize=3)
        axes.text(spread.high, row, f"  {spread.median:,.1f}", va="center")
    axes.set_yticks(range(len(ordered)), [who for who, _ in ordered])
    axes.set_xlabel(label)
    axes.margins(x=0.12)
    return _saved(name, figure, axes)


def growth(
    name: str, across: str, label: str, curves: Mapping[str, Sequence[tuple[float, float]]]
) -> tuple[Path, dict[str, float]]:
    """A log-log chart of how something grows; its title names the exponent of each curve.

    Args:
        name: Of the file, without its ending.
        across: Of the axis across: what grows.
        label: Of the axis upwards, with the unit.
        curves: By name, points of at least two different places, all above 0.

    Returns:
        The file, and the exponents by curve.
    """
    exponents = {who: exponent(points) for who, points in curves.items()}
    figure = Figure(figsize=(7, 4.5))
    axes = figure.subplots()
    for who, points in curves.items():
        xs, ys = zip(*sorted(points), strict=True)
        axes.loglog(xs, ys, marker="o", label=who)
    told = ", ".join(f"{who} {value:.2f}" for who, value in exponents.items())
    axes.set_title(f"exponent: {told}", fontsize=10)
    axes.set_xlabel(across)
    axes.set_ylabel(label)
    if len(curves) > 1:
        axes.legend()
    return _saved(name, figure, axes), exponents


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the straight line through the points' logarithms: 0 is flat, 1 grows alike, 2 squares."""
    xs, ys = ([math.log(value) for value in values] for values in zip(*points, strict=True))
    middle, level = sum(xs) / len(xs), sum(ys) / len(ys)
    along = sum((x - middle) * (y - level) for x, y in zip(xs, ys, strict=True))
    return along / sum((x - middle) ** 2 for x in xs)


def _saved(name: str, figure: Figure, axes: Any) -> Path:
    axes.spines[["top", "right"]].set_visible(False)
    CHARTS.mkdir(exist_ok=True)
    path = CHARTS / f"{name}.png"
    # Without the library's version in it, the same numbers give the same file.
    figure.savefig(path, dpi=110, bbox_inches="tight", metadata={"Software": None})
    return path
