"""The report of the benchmarks, and its sections."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import __main__ as suite
from benchmarks.harness import report
from benchmarks.harness.charts import growth_chart
from benchmarks.harness.paths import BENCHMARKS, LAST_RUN
from benchmarks.harness.section import Goal, Section, Target

FOLDER = Path(suite.__file__).parent
MODULES = [
    ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts)
    for path in sorted(FOLDER.rglob("*.py"))
    if "peers" not in path.parts and not path.stem.startswith("__")
]


@pytest.mark.parametrize("module", MODULES)
def test_module_can_be_imported(module):
    assert import_module(module)


@pytest.mark.parametrize("section", suite.modules(full=True))
def test_section_can_be_measured(section):
    assert callable(import_module(f"benchmarks.sections.{section}").section)


def test_report_contains_sections_with_their_targets_and_charts(tmp_path):
    chart, _ = growth_chart("growth", "Growth", "x", "y", {"curve": [(1, 1), (2, 2)]})
    section = Section("Runs", "Many.", [Target(Goal.SENSOR_TICK, "9.1 s", met=False)], [chart])
    path = report.write(tmp_path / "new", [section], report.About("make bench", "Scope.", "a machine", 9.6))
    text = path.read_text()
    assert "## Runs\n\nMany." in text
    assert f"| {Goal.SENSOR_TICK.description} | 9.1 s |" in text
    assert "![Growth](charts/growth.png)" in text
    assert (path.parent / "charts" / "growth.png").exists()


def test_only_a_complete_run_replaces_the_committed_report():
    assert suite.report_folder([], full=True) == BENCHMARKS
    assert suite.report_folder([], full=False) == suite.report_folder(["landing"], full=True) == LAST_RUN
    assert BENCHMARKS not in LAST_RUN.parents


def test_sections_are_named_by_the_command_line():
    assert suite.named_sections(["landing", "start"]) == ["landing", "start"]
    assert suite.named_sections([]) == []


@pytest.mark.parametrize(
    ("argument", "code", "output"),
    [
        ("--help", 0, "usage: [FULL=1] python -m benchmarks [-h] [SECTION ...]"),
        ("landings", 2, "unknown section landings; the sections are landing, cluster, scale,"),
        ("--fast", 2, "unrecognized arguments: --fast"),
    ],
)
def test_a_command_line_that_names_no_section_measures_nothing(argument, code, output, capsys):
    with pytest.raises(SystemExit) as ended:
        suite.named_sections([argument])
    written = capsys.readouterr()
    assert ended.value.code == code
    assert output in (written.out if code == 0 else written.err)
