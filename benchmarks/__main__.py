"""Measure the benchmarks and write a report.

    [FULL=1] python -m benchmarks [SECTION ...]

With FULL=1 and no section, this command measures everything and writes benchmarks/REPORT.md, which is
committed. Any other run measures only a part. It writes .local/bench/REPORT.md, so that it never replaces the
full report.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from importlib import import_module
from typing import TYPE_CHECKING

from benchmarks.harness import report
from benchmarks.harness.machine import describe_machine
from benchmarks.harness.paths import BENCHMARKS, LAST_RUN
from benchmarks.harness.section import Section

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MODULES = [
    "landing",
    "cluster",
    "scale",
    "continuous",
    "fan_out",
    "derived",
    "commits",
    "requests",
    "fairness",
    "iceberg",
    "chain",
    "memory",
    "compare",
    "imports",
]
"""The sections that have targets, in the order of the report. README.md describes what a section is."""

FULL_MODULES = ["start", "events", "finished_shards"]
"""The sections without targets, which follow them and are measured only with FULL=1."""

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "local",  # the endpoints on the loopback accept any credentials
    "AWS_SECRET_ACCESS_KEY": "local",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "SPARK_LOCAL_IP": "127.0.0.1",
}


def modules(*, full: bool) -> list[str]:
    """Return the sections to measure where the command names none."""
    return [*MODULES, *FULL_MODULES] if full else MODULES


def named_sections(arguments: Sequence[str]) -> list[str]:
    """Return the sections that a command line names; none for all.

    An option or the name of no section ends the process with the exit code 2, and `--help` with 0.
    """
    parser = argparse.ArgumentParser(
        prog="[FULL=1] python -m benchmarks",
        description="Measure the benchmarks and write a report, see benchmarks/README.md.",
    )
    known = ", ".join(modules(full=True))
    parser.add_argument(
        "section",
        nargs="*",
        metavar="SECTION",
        help=f"what to measure, by default the sections that have targets, or all with FULL=1: {known}",
    )
    names: list[str] = parser.parse_args(arguments).section
    if unknown := [name for name in names if name not in modules(full=True)]:
        parser.error(f"unknown section {', '.join(unknown)}; the sections are {known}")
    return names


def measure(module: str, *, full: bool) -> tuple[Section, bool]:
    """Measure a section; a failure is reported and does not affect the other sections.

    Returns:
        The section, and whether it could be measured.
    """
    started = time.monotonic()
    try:
        section: Section = import_module(f"benchmarks.sections.{module}").section(full)
    except Exception as error:  # noqa: BLE001  # printed, written to the report, and the command exits with 1
        traceback.print_exc()
        return Section(module, f"Failed: {type(error).__name__}: {error}"), False
    print(f"{module}: {time.monotonic() - started:.0f} s", file=sys.stderr)  # noqa: T201  # shows progress
    return section, True


def scope(names: list[str], *, full: bool) -> str:
    """Return the sentences that state what a run measures, and what it leaves out."""
    with_targets, without = (", ".join(f"`{name}`" for name in each) for each in (MODULES, FULL_MODULES))
    if names:
        return (
            f"It measured only these sections, {'in full' if full else 'in the short form'}: "
            f"{', '.join(f'`{name}`' for name in names)}. The complete report is `benchmarks/REPORT.md`."
        )
    if full:
        return (
            "It measured all sections in full. `make bench` measures, in about half an hour, only the "
            f"sections that have targets, and some of them with less data and fewer rounds: {with_targets}. "
            f"These sections, which have no targets, are measured only by `make bench FULL=1`: {without}."
        )
    return (
        "It measured only the sections that have targets, and some of them with less data and fewer rounds "
        f"than in full: {with_targets}. It did not measure these sections, which `make bench FULL=1` adds: "
        f"{without}. The complete report is `benchmarks/REPORT.md`."
    )


def report_folder(names: list[str], *, full: bool) -> Path:
    """Return the folder to write the report to. Only a complete run replaces the committed report."""
    return BENCHMARKS if full and not names else LAST_RUN


def main(names: list[str]) -> int:
    """Measure sections, print the report and write it; return 1 if a section could not be measured."""
    os.environ.update(ENVIRONMENT)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    full = os.environ.get("FULL") == "1"
    machine, started = describe_machine(), time.monotonic()
    results = [measure(module, full=full) for module in names or modules(full=full)]
    command = " ".join(["python -m benchmarks", *names]) if names else "make bench"
    command += " FULL=1" * full
    minutes = (time.monotonic() - started) / 60
    about = report.About(command, scope(names, full=full), machine, minutes)
    sections = [section for section, _ in results]
    print(report.render(sections, about))  # noqa: T201  # the output of the command
    path = report.write(report_folder(names, full=full), sections, about)
    print(f"The report is in {path}", file=sys.stderr)  # noqa: T201  # likewise
    return 0 if all(measured for _, measured in results) else 1


if __name__ == "__main__":
    sys.exit(main(named_sections(sys.argv[1:])))
