"""An archive of Spark's classes, from which a JVM takes them instead of reading, checking and linking each.

Java calls it a dynamic archive for class data sharing. It belongs to one Java and one Spark; a JVM that finds
that it is of others goes on without it. `server.make_archive` makes it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from importlib.metadata import distribution
from pathlib import Path

from kinesis_assets.spark.java import java_command


def archive_path() -> Path:
    """Where the archive of this user, this Java and this Spark is, if it was made."""
    java = Path(shutil.which(java_command()) or "").resolve()
    spark = distribution("pyspark")  # the package itself takes a while to load
    whose = hashlib.sha256(f"{java}:{spark.locate_file('pyspark')}".encode()).hexdigest()
    caches = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(caches, "kinesis-assets", f"spark-{spark.version}-{whose[:16]}.jsa")


def archive_options() -> list[str]:
    """The options by which a JVM uses the archive; none if there is none."""
    path = archive_path()
    # A space would end the option.
    return [f"-XX:SharedArchiveFile={path}"] if " " not in str(path) and path.is_file() else []
