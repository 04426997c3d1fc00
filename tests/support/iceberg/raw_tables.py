"""Raw tables in the catalogs of the tests."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kinesis_assets.table.iceberg.catalog import IcebergCatalog
from kinesis_assets.table.iceberg.raw_table import IcebergFormat
from kinesis_assets.table.table import PositionedTable
from support.timing import WRITING

if TYPE_CHECKING:
    from pathlib import Path

    from support.iceberg.catalogs import TestCatalog


def raw_table_in(catalog: TestCatalog, folder: Path, uri: str | None = None) -> PositionedTable:
    """Return the raw table `orders`, of which three snapshots are kept.

    Args:
        uri: The URI at which the catalog is called, if it is not its own.
    """
    properties = dict(catalog.properties)
    settings = {"uri": properties.pop("uri", None), "warehouse": properties.pop("warehouse", None)}
    settings |= {} if uri is None else {"uri": uri}
    found = IcebergCatalog(
        properties.pop("type"),
        catalog.namespace,
        "orders",
        properties=properties,
        catalog_name=catalog.name,
        snapshots_kept=3,
        **settings,
    )
    return PositionedTable(str(folder / "orders"), WRITING, format=partial(IcebergFormat, catalog=found))
