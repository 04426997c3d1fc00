"""The folder of files that are made once for each user, Spark and version of this package."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder, whether or not it exists."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kinesis-assets")
