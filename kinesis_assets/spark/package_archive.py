"""A zip of this package, which executors import, so that their Python needs no installation of it.

Python workers find it before any installed release, so a task always runs the code of the run that plans it.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from kinesis_assets.errors import LandingFailed
from kinesis_assets.spark.cache_folder import cache_folder
from kinesis_assets.spark.code_version import code_hash, package_modules
from kinesis_assets.spark.setting_names import CHECKED
from kinesis_assets.spark.spark_3 import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    """Return the zip of this version of the package, made at the first call in the user's cache folder.

    Raises:
        LandingFailed: It cannot be written.
    """
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
