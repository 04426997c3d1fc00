"""Where the time of imports goes, by package, as `python -X importtime` tells it."""

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
"""By how their names begin: `dagster_shared` counts for dagster."""

_LINE = re.compile(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)$", re.MULTILINE)


def milliseconds(statement: str) -> dict[str, float]:
    """What each module takes that a new interpreter imports for a statement; see `by_module`.

    Raises:
        CalledProcessError: It failed.
    """
    command = [sys.executable, "-X", "importtime", "-c", statement]
    return by_module(subprocess.run(command, stderr=subprocess.PIPE, check=True, text=True).stderr)


def by_module(told: str) -> dict[str, float]:
    """Milliseconds on the wall of each module that is told of, without those that it imports itself."""
    return {module: int(microseconds) / 1e3 for microseconds, module in _LINE.findall(told)}


def besides(more: Mapping[str, float], less: Mapping[str, float]) -> dict[str, float]:
    """Of the modules that are imported for more, those that are not for less."""
    return {module: spent for module, spent in more.items() if module not in less}


def by_package(modules: Mapping[str, float]) -> dict[str, float]:
    """Summed by package, of which there are all, and nothing else."""
    spent = dict.fromkeys([*PACKAGES.values(), STANDARD_LIBRARY, OTHERS], 0.0)
    for module, each in modules.items():
        spent[_package(module)] += each
    return spent


def medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of each package in all processes."""
    sums = [by_package(modules) for modules in rounds]
    return {name: statistics.median(each[name] for each in sums) for name in sums[0]}


def _package(module: str) -> str:
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return STANDARD_LIBRARY
    return next((name for begin, name in PACKAGES.items() if top.startswith(begin)), OTHERS)
