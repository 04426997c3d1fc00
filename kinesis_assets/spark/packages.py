"""What executors import: this package, and an archive of the other packages that tasks need.

Each session sends a zip of this package, see `package_archive`. Python workers find it before any
installed release, so a task always runs the code of the run that plans it. A hash of the code is its
version, by which a run detects executors that would run other code. The archive of the other packages
needs a Python interpreter on the executor, in the version for which it was packed.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING

from kinesis_assets.errors import ExecutorUnsuitable, InvalidInput, LandingFailed
from kinesis_assets.spark.local_settings import CHECKED, cache_folder
from kinesis_assets.spark.pyspark_internals import is_remote
from kinesis_assets.spark.worker_daemon import TASK_MODULES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_VERSION = re.compile(r"3\.\d{1,2}")

_NOT_PACKED = {"pyspark", "py4j", "kinesis-assets"}
"""Distributions that an executor has with Spark, and this package, which each session sends."""

_OPTIONAL = (
    *("fastavro", "google.protobuf.json_format", "grpc_tools.protoc"),
    *("confluent_kafka.schema_registry", "httpcore2", "h11", "truststore", "anyio"),  # some on first use
)
"""What the decoders of some formats import."""

_IMPORT = f"""
import importlib, sys
before = set(sys.modules)
for module in sys.argv[1:]:
    importlib.import_module(module)
for module in {_OPTIONAL}:
    try:
        importlib.import_module(module)
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

    Raises:
        ExecutorUnsuitable: A package cannot be downloaded or written.
        InvalidInput: The file is not a .tar.gz, or the version is not one of Python 3.
    """
    if not archive.name.endswith((".tar.gz", ".tgz")):
        raise InvalidInput(f"invalid archive {str(archive)!r}: give a name that ends with .tar.gz")
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


_PACKAGE = __name__.partition(".")[0]


def add_package(spark: SparkSession) -> None:
    """Make the tasks of a session on a cluster or on Spark Connect import this package from the zip.

    Nothing is known of the executors of such a session, so they are to be checked before anything is planned.

    Raises:
        LandingFailed: The zip cannot be written.
    """
    archive = package_archive()
    if not is_remote() and any(file.endswith(f"/{archive.name}") for file in spark.sparkContext.listFiles):
        return  # it was added by an earlier run of this process
    spark.conf.set(CHECKED, "")  # first, so that a session that has the zip is never without it
    if is_remote():
        spark.addArtifacts(str(archive), pyfile=True)
    else:
        before = list(sys.path)
        spark.sparkContext.addPyFile(str(archive))
        sys.path[:] = before  # this process and its children go on with the package that they have


def package_archive() -> Path:
    """Return the zip of this version of the package, made at the first call in the user's cache folder."""
    archive = cache_folder() / f"{_PACKAGE}-{code_hash()}.zip"
    if zipfile.is_zipfile(archive):
        return archive
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        _write(archive)
    except OSError as error:
        raise LandingFailed(
            f"the executors need a zip of {_PACKAGE}, which cannot be written to {archive.parent}: {error}. "
            "Set XDG_CACHE_HOME to a folder that can be written to"
        ) from error
    return archive


def _write(archive: Path) -> None:
    """Write the zip in a folder of its own and move it into place, because other processes may do so too."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        unfinished = Path(folder, archive.name)
        # Some installers give files a date before 1980, the first that a zip can hold.
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as content:
            for module, path in package_modules().items():
                content.write(path, f"{_PACKAGE}/{module}")
        unfinished.replace(archive)


_FOLDER = Path(__file__).parents[1]
_DIGITS = 12


def package_modules(package: Path = _FOLDER) -> dict[str, Path]:
    """Return the files of the package's modules, by their path relative to it, in the order of these paths.

    The definitions that only this repository deploys are left out.
    """
    modules = {path.relative_to(package).as_posix(): path for path in package.rglob("*.py")}
    return {
        name: path
        for name, path in sorted(modules.items())
        if not name.startswith(("defs/", "definitions.py"))
    }


def code_hash(package: Path = _FOLDER) -> str:
    """Return a hash of the package's modules."""
    digest = hashlib.sha256()
    for name, path in package_modules(package).items():
        content = path.read_bytes()
        digest.update(f"{name}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()[:_DIGITS]
