"""The folder of a table: its files, their ages, and copies of all of them."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from pyarrow.fs import FileType

if TYPE_CHECKING:
    from datetime import timedelta

    from kinesis_assets.derive.derived_table import DerivedTable
    from kinesis_assets.table.raw_table import PositionedTable

DATA_FILES = "arrival_date=*/*.parquet"
LOG_ENTRIES = "_delta_log/*.json"


def folder_of(table: PositionedTable | DerivedTable) -> Path:
    return Path(unquote(urlparse(table.folder.uri).path))


def exists(table: PositionedTable) -> bool:
    """Return whether the table's folder exists, on a disk or in a bucket."""
    folder = table.files.base_fs.get_file_info(table.files.base_path.rstrip("/"))
    return folder.type is not FileType.NotFound


def files_of(table: PositionedTable | DerivedTable, pattern: str = "**/*") -> set[str]:
    """Return the paths of the table's files, relative to its folder."""
    folder = folder_of(table)
    return {path.relative_to(folder).as_posix() for path in folder.glob(pattern) if path.is_file()}


def set_age(table: PositionedTable | DerivedTable, duration: timedelta, *paths: str) -> None:
    """Set the modification time of files to `duration` ago."""
    then = time.time() - duration.total_seconds()
    for path in paths:
        os.utime(folder_of(table) / path, (then, then))


def copy_table(original: PositionedTable, table: PositionedTable) -> PositionedTable:
    """Copy a table that several tests prepare in the same way, and return the copy."""
    shutil.copytree(folder_of(original), folder_of(table))
    return table
