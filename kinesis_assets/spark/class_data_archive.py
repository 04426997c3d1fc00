"""The archive of Spark's classes, which saves a JVM from reading, verifying and linking each class.

It is a dynamic archive for class data sharing (CDS). It is valid for one Java and one Spark version; other
JVMs ignore it. `server.make_archive` creates it.
"""

from __future__ import annotations

import hashlib
import shutil
from importlib.metadata import distribution
from pathlib import Path

from kinesis_assets.spark.cache_folder import cache_folder
from kinesis_assets.spark.java import java_command


def archive_path() -> Path:
    """Return the path of the archive for this user, Java and Spark, whether or not it exists."""
    java = Path(shutil.which(java_command()) or "").resolve()
    spark = distribution("pyspark")  # importing pyspark itself is slow
    key = hashlib.sha256(f"{java}:{spark.locate_file('pyspark')}".encode()).hexdigest()
    return cache_folder() / f"spark-{spark.version}-{key[:16]}.jsa"


def archive_options() -> list[str]:
    """Return the options with which a JVM uses the archive; none if it does not exist."""
    path = archive_path()
    # A space in the path would end the option.
    return [f"-XX:SharedArchiveFile={path}"] if " " not in str(path) and path.is_file() else []
