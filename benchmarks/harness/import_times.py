"""The time that imports take, by package, as `python -X importtime` reports it."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STANDARD_LIBRARY = "the standard library"
OTHERS = "others"
PACKAGES = {
    "dagster": "dagster",
    "pydantic": "pydantic",
    "sqlalchemy": "sqlalchemy",
    "grpc": "grpc",
    "boto": "boto3, botocore",
    "pyspark": "pyspark",
    "pyarrow": "pyarrow",
    "numpy": "numpy",
    "deltalake": "deltalake",
    "msgspec": "msgspec",
    "kinesis_assets": "kinesis_assets",
}
"""Names in the report by the prefix of the top-level module: `dagster_shared` counts as dagster."""

_LINE = re.compile(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)$", re.MULTILINE)


def milliseconds(statement: str) -> dict[str, float]:
    """Return the import time of each module that a new interpreter imports for a statement; see `by_module`.

    Raises:
        CalledProcessError: The statement failed.
    """
    command = [sys.executable, "-X", "importtime", "-c", statement]
    return by_module(subprocess.run(command, stderr=subprocess.PIPE, check=True, text=True).stderr)


def by_module(output: str) -> dict[str, float]:
    """Return milliseconds of wall-clock time by module, without the modules that it imports itself."""
    return {module: int(microseconds) / 1e3 for microseconds, module in _LINE.findall(output)}


def difference(larger: Mapping[str, float], smaller: Mapping[str, float]) -> dict[str, float]:
    """Return the modules of the first import that the second does not import."""
    return {module: time for module, time in larger.items() if module not in smaller}


def by_package(modules: Mapping[str, float]) -> dict[str, float]:
    """Return the sums by package, with an entry for every package of the report."""
    sums = dict.fromkeys([*PACKAGES.values(), STANDARD_LIBRARY, OTHERS], 0.0)
    for module, time in modules.items():
        sums[_package(module)] += time
    return sums


def medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of all processes for each package."""
    sums = [by_package(modules) for modules in rounds]
    return {name: statistics.median(each[name] for each in sums) for name in sums[0]}


def _package(module: str) -> str:
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return STANDARD_LIBRARY
    return next((name for prefix, name in PACKAGES.items() if top.startswith(prefix)), OTHERS)
