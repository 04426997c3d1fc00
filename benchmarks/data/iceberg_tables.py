"""Raw tables in the format Iceberg, with the default settings and a catalog in a file beside the table."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from kinesis_assets.table.iceberg.catalog import IcebergCatalog
from kinesis_assets.table.iceberg.raw_table import IcebergFormat
from kinesis_assets.table.table import PositionedTable


def iceberg_table(uri: str) -> PositionedTable:
    """Return the table in a folder, which may not exist yet."""
    # A writer that waits longer for the file fails.
    database = f"sqlite:///{uri.rstrip('/')}.db?timeout=300"
    catalog = IcebergCatalog("sql", "lake", Path(uri).name.lower(), uri=database)
    return PositionedTable(uri, format=partial(IcebergFormat, catalog=catalog))
