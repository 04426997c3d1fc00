"""Measure everything, and write REPORT.md; or only the modules that are named, and print what comes of it.

[FULL=1] python -m benchmarks [MODULE ...]
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from importlib import import_module

from benchmarks.harness.measure import machine
from benchmarks.harness.report import REPORT, render
from benchmarks.harness.section import Section

MODULES = [
    "landing",
    "scale",
    "follow",
    "commits",
    "fairness",
    "chain",
    "memory",
    "imports",
]
"""In the order of the report. Each has a `section(full)`; see README.md."""

FULL_MODULES = [
    "growth",
    "codecs",
    "start",
    "file_sizes",
    "events",
    "aggregates",
    "contention",
    "finished_shards",
]
"""After them, with FULL=1 alone: no target hangs on these."""

SETTINGS = {
    "AWS_ACCESS_KEY_ID": "local",  # the endpoints here take any
    "AWS_SECRET_ACCESS_KEY": "local",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "SPARK_LOCAL_IP": "127.0.0.1",
}


def modules(*, full: bool) -> list[str]:
    """All that is measured where nothing is named."""
    return [*MODULES, *FULL_MODULES] if full else MODULES


def measured(module: str, *, full: bool) -> tuple[Section, bool]:
    """A module's section, and whether it could be measured: what fails does not take the rest with it."""
    began = time.monotonic()
    try:
        section: Section = import_module(f"benchmarks.sections.{module}").section(full)
    except Exception as error:  # noqa: BLE001  # told here and in the report; the command fails in the end
        traceback.print_exc()
        return Section(module, f"Failed: {type(error).__name__}: {error}"), False
    print(f"{module}: {time.monotonic() - began:.0f} s", file=sys.stderr)  # noqa: T201  # for who waits
    return section, True


def main(named: list[str]) -> int:
    """Measure, write and print; 1 if something could not be measured."""
    os.environ.update(SETTINGS)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # who runs what is measured has its bytecode
    full = os.environ.get("FULL") == "1"
    about, began = machine(), time.monotonic()
    results = [measured(module, full=full) for module in named or modules(full=full)]
    command = " ".join(["python -m benchmarks", *named]) if named else "make bench"
    command += " FULL=1" * full
    report = render(
        [section for section, _ in results],
        machine=about,
        command=command,
        minutes=(time.monotonic() - began) / 60,
    )
    if not named:
        REPORT.write_text(report, encoding="utf-8")
    print(report)  # noqa: T201  # for the person who waits
    return 0 if all(well for _, well in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
