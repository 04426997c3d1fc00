"""Tables in the format Iceberg, with the default settings and a catalog in a file beside the table."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from kinesis_assets.derive.iceberg_table import IcebergDerived
from kinesis_assets.table.format import DerivedIn
from kinesis_assets.table.iceberg.catalog import IcebergCatalog
from kinesis_assets.table.iceberg.raw_table import IcebergFormat
from kinesis_assets.table.raw_table import PositionedTable


def iceberg_table(uri: str) -> PositionedTable:
    """Return the raw table in a folder, which may not exist yet."""
    return PositionedTable(uri, format=partial(IcebergFormat, catalog=_catalog(uri)))


def derived_format(uri: str) -> DerivedIn:
    """Return the format of the derived table in a folder, which may not exist yet."""
    return DerivedIn(partial(IcebergDerived, catalog=_catalog(uri)))


def _catalog(uri: str) -> IcebergCatalog:
    # A writer that waits longer for the file fails.
    database = f"sqlite:///{uri.rstrip('/')}.db?timeout=300"
    return IcebergCatalog("sql", "lake", Path(uri).name.lower(), uri=database)
