"""Tables in each format. Tests of what all formats have in common run on one of them, see `FORMAT`."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.iceberg_table import IcebergDerived
from kinesis_assets.table.data_file import TABLE_SCHEMA
from kinesis_assets.table.format import DerivedIn
from kinesis_assets.table.iceberg.catalog import IcebergCatalog
from kinesis_assets.table.iceberg.history import states
from kinesis_assets.table.iceberg.raw_table import IcebergFormat
from kinesis_assets.table.iceberg.version import IcebergVersion
from kinesis_assets.table.policy import TablePolicy
from kinesis_assets.table.raw_table import PositionedTable
from support.iceberg import foreign
from support.iceberg.aws_catalogs import on_s3_tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.table import Table

    from kinesis_assets.table.format import SourceFormat
    from support.iceberg.catalogs import TestCatalog

FORMATS = ("delta", "iceberg")

FORMAT = os.environ.get("FORMAT", "delta")
"""The format of the tables of the fixture `table`: "delta"; "iceberg", which only the tests with the mark
`any_format` support; or "s3tables", Iceberg in a table bucket, for the crash matrix. The processes that a
test starts inherit it."""


SNAPSHOTS_KEPT = 3
"""How many snapshots of an Iceberg table the commits of the tests keep, so that they expire others."""


def raw_table(uri: str, policy: TablePolicy = TablePolicy()) -> PositionedTable:
    """Return a raw table in the format of the tests, which may not exist yet."""
    if FORMAT == "s3tables":
        catalog = replace(on_s3_tables(os.environ["TABLE_BUCKET"]), namespace="lake")
        name = re.sub(r"[^a-z0-9]", "_", uri.removeprefix("s3://"))
        return raw_table_in(catalog, uri, policy, name=name, snapshots_kept=SNAPSHOTS_KEPT)
    return table_of(FORMAT, uri, policy, snapshots_kept=SNAPSHOTS_KEPT)


def derived_at(uri: str, policy: TablePolicy = TablePolicy()) -> DerivedTable:
    """Return a derived table in the format of the tests, which may not exist yet."""
    return DerivedTable(uri, policy, format=derived_format(uri))


def derived_format(uri: str) -> DerivedIn | None:
    """Return the format of a derived table in the format of the tests; None for Delta Lake.

    The catalog of an Iceberg table is beside it. The name of its folder is that of the table there.
    """
    return None if FORMAT == "delta" else derived_iceberg(uri)


def derived_iceberg(uri: str) -> DerivedIn:
    """Return the format of a derived Iceberg table, see `derived_format`."""
    path = Path(uri)
    name = re.sub(r"[^a-z0-9]", "_", path.name.lower())
    catalog = sqlite_catalog(path.parent, f"derived_{name}", snapshots_kept=SNAPSHOTS_KEPT)
    return DerivedIn(partial(IcebergDerived, catalog=catalog))


def derived_in(catalog: TestCatalog, name: str, **changes: str) -> DerivedIn:
    """Return the format of a derived table in a catalog, with a name there.

    Args:
        changes: Properties of the catalog that differ.
    """
    found = _catalog_of(catalog, name, SNAPSHOTS_KEPT, **changes)
    return DerivedIn(partial(IcebergDerived, catalog=found))


def derived_rows(table: DerivedTable) -> pa.Table:
    """Return the rows of a derived table, read by another library."""
    if isinstance(table.format, IcebergDerived):
        return iceberg_of(table).scan().to_arrow()
    return DeltaTable(table.folder.uri).to_pyarrow_table()


def settings_of(table: PositionedTable) -> dict[str, Any]:
    """Return the settings of a stream for the format of a table."""
    if not isinstance(table.format, IcebergFormat):
        return {}
    return {"format": "iceberg", **_settings_of(table.format._in_catalog.catalog)}


def derived_settings(uri: str) -> dict[str, Any]:
    """Return the settings of a derived table for the format of the tests."""
    format_ = derived_format(uri)
    return {} if format_ is None else derived_settings_in(format_)


def derived_settings_in(format_: DerivedIn) -> dict[str, Any]:
    """Return the settings of a derived Iceberg table for its catalog."""
    return {"table_format": "iceberg", **_settings_of(format_.of.keywords["catalog"])}


def _settings_of(catalog: IcebergCatalog) -> dict[str, Any]:
    named = {"database": catalog.namespace, "name": catalog.name, "catalog_name": catalog.catalog_name}
    address = {} if catalog.uri is None else {"uri": catalog.uri}
    properties = {key: value for key, value in catalog.properties.items() if "access-key" not in key}
    if (region := properties.pop("glue.region", None)) is not None:
        properties["region_name"] = region
    return {
        "catalog": {"type": catalog.type, **address, **named, **properties},
        "keep_snapshots": catalog.snapshots_kept,
    }


def sqlite_catalog(folder: Path, name: str = "orders", **settings: Any) -> IcebergCatalog:
    """Return a catalog in a file."""
    return IcebergCatalog("sql", "lake", name, uri=f"sqlite:///{folder}/catalog.db", **settings)


def raw_table_in(
    catalog: TestCatalog,
    folder: str,
    policy: TablePolicy = TablePolicy(),
    *,
    name: str = "orders",
    snapshots_kept: int = 50,
    **changes: str,
) -> PositionedTable:
    """Return a raw table in a catalog, which may not exist yet.

    Args:
        folder: Path or URI of the table.
        changes: Properties of the catalog that differ.
    """
    found = _catalog_of(catalog, name, snapshots_kept, **changes)
    return PositionedTable(folder, policy, format=partial(IcebergFormat, catalog=found))


def _catalog_of(catalog: TestCatalog, name: str, snapshots_kept: int, **changes: str) -> IcebergCatalog:
    properties = {**catalog.properties, **changes}
    return IcebergCatalog(
        properties.pop("type"),
        catalog.namespace,
        name,
        uri=properties.pop("uri", None),
        warehouse=properties.pop("warehouse", None),
        properties=properties,
        catalog_name=catalog.name,
        snapshots_kept=snapshots_kept,
    )


def delta_columns(types: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a table by their types, as in Delta's metadata."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]
    return {"type": "struct", "fields": fields}


def format_of(table: PositionedTable) -> str:
    """Return the format of a table."""
    return "iceberg" if isinstance(table.format, IcebergFormat) else "delta"


def table_of(format_: str, uri: str, policy: TablePolicy = TablePolicy(), **settings: Any) -> PositionedTable:
    """Return a raw table, which may not exist yet. The catalog of an Iceberg table is beside it.

    Args:
        settings: Settings of the catalog of an Iceberg table.
    """
    if format_ == "delta":
        return PositionedTable(uri, policy)
    catalog = sqlite_catalog(Path(uri).parent, **settings)
    return PositionedTable(uri, policy, format=partial(IcebergFormat, catalog=catalog))


def source_format(table: PositionedTable | DerivedTable) -> SourceFormat | None:
    """Return the format of a table as derivations from it name it."""
    if isinstance(table, DerivedTable):
        return derived_format(table.uri)
    return table._format_of if isinstance(table.format, IcebergFormat) else None


def reopened(table: PositionedTable, policy: TablePolicy | None = None) -> PositionedTable:
    """Return the same table with empty caches, and perhaps another policy."""
    return PositionedTable(table.uri, policy or table.policy, format=table._format_of)


def iceberg_of(table: PositionedTable | DerivedTable) -> Table:
    """Return the newest version of an Iceberg table, as pyiceberg opens it."""
    snapshot = table.snapshot()
    assert isinstance(snapshot, IcebergVersion)
    return snapshot.iceberg


def append(table: PositionedTable, rows: list[dict[str, Any]]) -> None:
    """Append rows with another program."""
    if isinstance(table.format, IcebergFormat):
        iceberg = iceberg_of(table)
        if rows:
            iceberg.append(pa.Table.from_pylist(rows, iceberg.schema().as_arrow()))
        else:
            with iceberg.transaction() as transaction, transaction.update_snapshot().fast_append():
                pass
    else:
        write_deltalake(table.uri, pa.Table.from_pylist(rows, TABLE_SCHEMA), mode="append")


def write(table: PositionedTable, rows: pa.Table) -> None:
    """Create a table with rows, as CREATE TABLE AS SELECT does."""
    if isinstance(table.format, IcebergFormat):
        table.create_if_missing()
        iceberg = iceberg_of(table)
        iceberg.append(rows.select(iceberg.schema().column_names).cast(iceberg.schema().as_arrow()))
    else:
        write_deltalake(table.uri, rows, partition_by=["arrival_date"])


def delete(table: PositionedTable, predicate: str) -> None:
    """Delete rows with another program."""
    if isinstance(table.format, IcebergFormat):
        iceberg_of(table).delete(predicate)
    else:
        DeltaTable(table.uri).delete(predicate)


def compact(table: PositionedTable | DerivedTable) -> None:
    """Write the rows of a table to fewer files with another program."""
    if _is_iceberg(table):
        foreign.compact(iceberg_of(table))
    else:
        DeltaTable(table.folder.uri).optimize.compact()


def _is_iceberg(table: PositionedTable | DerivedTable) -> bool:
    return isinstance(table.format, IcebergFormat | IcebergDerived)


def rewrite_files(table: PositionedTable | DerivedTable) -> None:
    """Compact a table with another program, and delete what only its older versions need."""
    compact(table)
    if _is_iceberg(table):
        foreign.expire_all_but_current(iceberg_of(table))
        foreign.remove_unreferenced(iceberg_of(table), keeps_hidden=True)
    else:
        delta = DeltaTable(table.folder.uri)
        delta.vacuum(0, dry_run=False, enforce_retention_duration=False)
        delta.create_checkpoint()


def restore(table: PositionedTable, version: int) -> None:
    """Restore a version of the table, as an operator might. That of an Iceberg table may be expired."""
    if isinstance(table.format, IcebergFormat):
        iceberg = iceberg_of(table)
        kept = [each for each in states(iceberg.metadata) if each.version <= version]
        snapshot = (kept or states(iceberg.metadata)[:1])[-1].snapshot
        iceberg.manage_snapshots().set_current_snapshot(snapshot.snapshot_id).commit()
    else:
        DeltaTable(table.uri).restore(version)


def rows_of(table: PositionedTable, columns: Sequence[str] = ()) -> pa.Table:
    """Return the rows of a table with some or all columns, read by another library."""
    if isinstance(table.format, IcebergFormat):
        found = iceberg_of(table).scan(selected_fields=tuple(columns) or ("*",)).to_arrow()
        return found.select(list(columns)) if columns else found  # it orders them as the table does
    return DeltaTable(table.uri).to_pyarrow_table(columns=list(columns) or None)
