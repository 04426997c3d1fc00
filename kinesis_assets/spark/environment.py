"""Packs the packages that tasks import into an archive for the executors.

This package is not one of them: each session sends its own code, see `package_archive`. The archive needs a
Python interpreter on the executor, in the version for which it was packed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import distributions
from pathlib import Path

from kinesis_assets.errors import ExecutorUnsuitable, InvalidInput
from kinesis_assets.spark.task_modules import TASK_MODULES

_VERSION = re.compile(r"3\.\d{1,2}")

_NOT_PACKED = {"pyspark", "py4j", "kinesis-assets"}
"""Distributions that an executor has with Spark, and this package, which each session sends."""

_IMPORT = """
import importlib, sys
before = set(sys.modules)
for module in sys.argv[1:]:
    importlib.import_module(module)
try:
    import fastavro
except ImportError:
    pass
for name in set(sys.modules) - before:
    if path := getattr(sys.modules[name], "__file__", None):
        print(path)
"""

_PYTHON = """#!/bin/sh
# Python {version} with the packages of this archive.
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
export PYTHONPATH="$here/lib${{PYTHONPATH:+:$PYTHONPATH}}"
exec python{version} "$@"
"""


def task_requirements() -> list[str]:
    """Return the requirements of tasks, each with the version that is installed here, such as `numpy==2.4.1`.

    They are found by importing what tasks import, in a new process.

    Raises:
        ExecutorUnsuitable: A module cannot be imported.
    """
    found = set(_run([sys.executable, "-c", _IMPORT, *TASK_MODULES]).splitlines())
    return sorted(
        f"{distribution.name}=={distribution.version}"
        for distribution in distributions()
        if distribution.name not in _NOT_PACKED
        and any(str(distribution.locate_file(file)) in found for file in distribution.files or ())
    )


def pack_environment(archive: Path, python: str) -> list[str]:
    """Create the archive for executors with this machine's platform.

    Args:
        archive: The file to write, a gzipped tar.
        python: The version of the executors' Python, such as "3.12". Spark demands that of the driver.

    Returns:
        The packed requirements.

    Raises:
        ExecutorUnsuitable: A package cannot be downloaded or written.
        InvalidInput: The version is not one of Python 3.
    """
    if not _VERSION.fullmatch(python):
        raise InvalidInput(f"invalid Python version {python!r}: give the first two numbers, as in 3.12")
    requirements = task_requirements()
    with tempfile.TemporaryDirectory(prefix="kinesis-assets-environment-") as folder:
        packages, interpreter = Path(folder, "lib"), Path(folder, "bin", "python")
        options = ["--no-deps", "--only-binary=:all:", "--python-version", python, "--target", str(packages)]
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, *options, *requirements])
        interpreter.parent.mkdir()
        interpreter.write_text(_PYTHON.format(version=python))
        interpreter.chmod(0o755)
        try:
            with tarfile.open(archive, "w:gz", compresslevel=1) as content:
                content.add(packages, "lib")
                content.add(interpreter, "bin/python")
        except OSError as error:
            raise ExecutorUnsuitable(f"{archive} cannot be written: {error}") from error
    return requirements


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ExecutorUnsuitable(f"the packages of the executors cannot be packed: {reason}")
    return done.stdout
