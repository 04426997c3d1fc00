"""Opens and creates Iceberg tables, raw and derived, in the catalog that names their newest version."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pyiceberg.exceptions import (
    NoSuchIcebergTableError,
    NoSuchNamespaceError,
    NoSuchPropertyException,
    NoSuchTableError,
    TableAlreadyExistsError,
)

from kinesis_assets.errors import TableMissing, TableUnsuitable
from kinesis_assets.retry import Backoff
from kinesis_assets.table.iceberg.catalog import (
    create_namespace,
    iceberg_errors,
    location_of,
    relative,
)
from kinesis_assets.table.iceberg.manifests import FORMAT_VERSION
from kinesis_assets.table.store.storage import files_in, has_metadata_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from kinesis_assets.table.iceberg.catalog import IcebergCatalog
    from kinesis_assets.table.stored_table import StoredTable

_Opened = TypeVar("_Opened")

_CREATIONS = 5
"""How often to try to create a table that cannot be opened."""

_BACKOFF = Backoff(0.1, 1.0)
"""The waits between the tries."""


class TableInCatalog:
    """A table in its catalog, where it may not exist yet.

    Args:
        commits: The folder, relative to that of the table, with what commits write after it was created.
    """

    def __init__(self, table: StoredTable, catalog: IcebergCatalog, commits: str) -> None:
        self._table = table
        self.catalog = catalog
        self._commits = commits
        self._location = location_of(table.folder)
        self._opened: tuple[dict[str, str], Catalog] | None = None

    def load(self) -> Table:
        """Open the newest version of the table.

        Raises:
            TableMissing: The table does not exist.
            TableUnreachable: The catalog or the metadata cannot be read.
            TableUnsuitable: It is in another folder, has another version of the format, or is no Iceberg
                table.
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
                if has_metadata_of("delta", self._table.files):
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
        if relative(f"{metadata.location.rstrip('/')}/", f"{self._location}/x") != "x":
            raise TableUnsuitable(
                uri,
                f"the catalog's table {name} is in {metadata.location}. Correct the setting table, or use "
                "another name",
            )
        if metadata.format_version != FORMAT_VERSION:
            raise TableUnsuitable(
                uri,
                f"has version {metadata.format_version} of Iceberg's format, and only {FORMAT_VERSION} can "
                "be written",
            )
        return found

    def open_or_create(
        self,
        opened: Callable[[], _Opened],
        schema: Schema,
        partitioning: PartitionSpec,
        properties: Mapping[str, str],
    ) -> _Opened:
        """Open the table, or create an empty one. Of several processes, one creates it.

        Args:
            opened: Opens the table, and raises `TableMissing` if it does not exist.

        Raises:
            TableNotWritable: The table cannot be created because writing is refused.
            TableUnreachable: The table can be neither opened nor created.
            TableUnsuitable: The folder is that of a table which the catalog does not have.
        """
        failures = 0
        while True:
            try:
                return opened()
            except TableMissing:
                if failures == _CREATIONS:
                    if self._has_commits():
                        raise self._lost() from None
                    raise
            if failures:
                self._table.clock.sleep(_BACKOFF.wait(failures))
            failures += 1
            if not self._has_commits():  # or another process has just created the table
                self._create(schema, partitioning, properties)

    def _has_commits(self) -> bool:
        with iceberg_errors(self._table.uri, "opened"):
            return bool(files_in(self._table.files, self._commits))

    def _lost(self) -> TableUnsuitable:
        """Return the error for a folder whose table the catalog does not have, or no longer.

        A new table in it would be filled from the start, and maintenance would delete the files of the old
        one.
        """
        return TableUnsuitable(
            self._table.uri,
            f"the catalog has no table {'.'.join(self.catalog.identifier)}, but the folder has the "
            "positions and perhaps the rows of one, which was renamed or dropped, or is in another catalog; "
            "nothing was changed. Correct the setting catalog, or register the newest file "
            "metadata/*.metadata.json there. To start again without these rows, use another folder",
        )

    def _create(self, schema: Schema, partitioning: PartitionSpec, properties: Mapping[str, str]) -> None:
        catalog, identifier = self._client(), self.catalog.identifier
        with iceberg_errors(self._table.uri, "created", writes=True):

            def create() -> None:
                named = {**properties, "format-version": str(FORMAT_VERSION)}
                catalog.create_table(identifier, schema, self._location, partitioning, properties=named)

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
        access = self.catalog.access(self._table.folder)
        if self._opened is None or self._opened[0] != access:
            self._opened = access, self.catalog.open(access)
        return self._opened[1]
