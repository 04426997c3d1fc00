"""Opens and creates Iceberg tables, raw and derived, in the catalog that names their newest version."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pyiceberg.exceptions import (
    NoSuchIcebergTableError,
    NoSuchNamespaceError,
    NoSuchPropertyException,
    NoSuchTableError,
    TableAlreadyExistsError,
)

from kinesis_assets.errors import TableMissing, TableUnsuitable
from kinesis_assets.table.creation import open_or_create
from kinesis_assets.table.iceberg.catalog import (
    create_namespace,
    iceberg_errors,
    location_of,
    relative,
    store_properties,
)
from kinesis_assets.table.iceberg.manifests import FORMAT_VERSION
from kinesis_assets.table.store.storage import has_metadata_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from kinesis_assets.table.iceberg.catalog import IcebergCatalog
    from kinesis_assets.table.stored_table import StoredTable

_Opened = TypeVar("_Opened")

_FOLDER = "kinesis_assets.folder"
"""The property of a table at a location that its catalog has chosen: the folder with its positions."""


class TableInCatalog:
    """A table in its catalog, where it may not exist yet.

    Args:
        commits: The folder, relative to that of the table, with what commits write after it was created.
    """

    def __init__(self, table: StoredTable, catalog: IcebergCatalog, commits: str) -> None:
        self._table = table
        self.catalog = catalog
        self._commits = commits
        self._folder = location_of(table.folder)
        self._files = table.files  # without those at a location that the catalog chooses
        self._opened: tuple[dict[str, str], Catalog] | None = None

    def load(self) -> Table:
        """Open the newest version of the table.

        Raises:
            TableMissing: The table does not exist.
            TableUnreachable: The catalog or the metadata cannot be read.
            TableUnsuitable: It is in another folder, has its positions in one, has another version of the
                format, or is no Iceberg table.
        """
        uri, name = self._table.uri, ".".join(self.catalog.identifier)
        with iceberg_errors(uri, "opened"):
            try:
                found = self._client().load_table(self.catalog.identifier)
            except (NoSuchIcebergTableError, NoSuchPropertyException):
                raise TableUnsuitable(
                    uri,
                    f"the catalog's entry {name} is not of an Iceberg table. Use another name in the setting "
                    "catalog",
                ) from None
            except (NoSuchTableError, NoSuchNamespaceError) as error:
                if has_metadata_of("delta", self._files):
                    raise TableUnsuitable(
                        uri,
                        "is a Delta table, and the format of a table cannot be changed; nothing was changed. "
                        "Use another folder, and start it where this table ends",
                    ) from None
                raise TableMissing(
                    uri,
                    f"the catalog has no table {name}; the first run creates it, unless its folder is that "
                    "of an older table",
                ) from error
        metadata = found.metadata
        region = self.catalog.region_of_rows
        folder = metadata.location if region is None else metadata.properties.get(_FOLDER, "another folder")
        if relative(f"{folder.rstrip('/')}/", f"{self._folder}/x") != "x":
            raise TableUnsuitable(
                uri,
                f"the catalog's table {name} is in {folder}. Correct the setting table, or use another name"
                if region is None
                else f"the table {name} in the table bucket has its positions in {folder}, or was created by "
                "another program. Correct the setting table, or use another name",
            )
        if metadata.format_version != FORMAT_VERSION:
            raise TableUnsuitable(
                uri,
                f"has version {metadata.format_version} of Iceberg's format, and only {FORMAT_VERSION} can "
                "be written",
            )
        if region is not None:
            self._table.keep_rows_at(metadata.location, region)
        return found

    def open_or_create(
        self,
        opened: Callable[[], _Opened],
        schema: Schema,
        partitioning: PartitionSpec,
        properties: Mapping[str, str],
    ) -> _Opened:
        """Open the table, or create an empty one, see `creation.open_or_create`.

        Raises:
            TableNotWritable: The table cannot be created because writing is refused.
        """
        way_out = "If it was renamed or dropped, or is in another catalog, correct the setting catalog"
        if self.catalog.region_of_rows is None:
            way_out += ", or register the newest file metadata/*.metadata.json there"
        return open_or_create(
            self._table,
            opened,
            partial(self._create, schema, partitioning, properties),
            commits=self._commits,
            lost=f"the catalog has no table {'.'.join(self.catalog.identifier)}",
            way_out=way_out,
        )

    def _create(self, schema: Schema, partitioning: PartitionSpec, properties: Mapping[str, str]) -> None:
        catalog, identifier = self._client(), self.catalog.identifier
        with iceberg_errors(self._table.uri, "created", writes=True):

            def create() -> None:
                named = {**properties, "format-version": str(FORMAT_VERSION)}
                location: str | None = self._folder
                if self.catalog.region_of_rows is not None:
                    location, named[_FOLDER] = None, self._folder
                catalog.create_table(identifier, schema, location, partitioning, properties=named)

            try:
                try:
                    create()
                except NoSuchNamespaceError:  # to create one where there is one can be forbidden
                    create_namespace(catalog, identifier[:-1])
                    create()
            except TableAlreadyExistsError:
                return  # another process has created it

    def _client(self) -> Catalog:
        """Return the client of the catalog. It is replaced when the credentials of a role are refreshed."""
        access = store_properties(self._table.folder)
        if self.catalog.region_of_rows is not None:
            access["s3.region"] = self.catalog.region_of_rows
        if self._opened is None or self._opened[0] != access:
            self._opened = access, self.catalog.open(access)
        return self._opened[1]
