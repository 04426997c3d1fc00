"""Opens and creates Delta tables, raw and derived.

Never import this module in a Spark task: the Rust library behind Delta Lake does not survive a fork. Errors
of that library are raised again without their cause: when S3 rejects a signature, its response repeats the
request, which includes the session token.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from kinesis_assets.errors import RoleNotAssumed, TableError, TableMissing, TableNotWritable, TableUnsuitable
from kinesis_assets.table.creation import open_or_create
from kinesis_assets.table.store.storage import has_metadata_of, not_writable, table_errors, unreachable
from kinesis_assets.table.store.suitability import check_conditional_puts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kinesis_assets.table.store.storage import TableFolder
    from kinesis_assets.table.stored_table import StoredTable

_Opened = TypeVar("_Opened")

_ERRORS = (DeltaError, OSError, RoleNotAssumed)
"""The errors of delta-rs, and of the credentials that it needs."""

delta_errors = partial(table_errors, _ERRORS)
"""See `table_errors`, and the top of this module."""

_IS_ICEBERG = (
    "is an Iceberg table, of which only its catalog knows the newest version; nothing was changed. A stream "
    "needs format: iceberg and its catalog, or another folder; read_table and new_rows need the catalog"
)


def open_delta(uri: str, folder: TableFolder, creator: str = "the first run") -> DeltaTable:
    """Open the newest version of a table.

    Args:
        creator: What creates the table, for the error.

    Raises:
        TableMissing: The table does not exist.
        TableUnreachable: The table's log cannot be read.
        TableUnsuitable: It is an Iceberg table.
    """
    with delta_errors(uri, "opened"):
        try:
            return DeltaTable(folder.uri, storage_options=folder.storage_options())
        except TableNotFoundError as error:
            if has_metadata_of("iceberg", folder.open()):
                raise TableUnsuitable(uri, _IS_ICEBERG) from None
            raise TableMissing(uri, f"there is no table; {creator} creates it") from error


def open_or_create_delta(
    table: StoredTable,
    opened: Callable[[], _Opened],
    schema: Mapping[str, Any],
    *,
    commits: str,
    partition_by: Sequence[str],
    configuration: Mapping[str, str],
    description: str | None = None,
) -> _Opened:
    """Open a table; create it if it does not exist, see `creation.open_or_create`.

    Args:
        schema: The schema of a new table, as in Delta's metadata.
        configuration: The properties of a new table, also those that Delta does not know.

    Raises:
        StoreUnsuitable: The store ignores the condition of a conditional put. Nothing was created.
        TableNotWritable: The table cannot be created because writing is refused.
    """
    uri, folder = table.uri, table.folder

    def create() -> TableError | None:
        check_conditional_puts(uri, folder)  # if the store cannot be reached, the creation reports it
        try:
            DeltaTable.create(
                folder.uri,
                Schema.from_json(json.dumps(schema)),
                mode="error",
                partition_by=list(partition_by),
                description=description,
                configuration=configuration,
                raise_if_key_not_exists=False,  # Delta does not know the property of the owner
                # A retry would commit a second creation to a table that another run has created.
                commit_properties=CommitProperties(max_commit_retries=0),
                storage_options=folder.storage_options(),
            )
        except _ERRORS as error:
            refused = not_writable(uri, error) or unreachable(uri, "created", error)
            # A store may refuse a second creation before the first can be read, by an error of Delta only.
            if isinstance(refused, TableNotWritable) or isinstance(error, OSError | RoleNotAssumed):
                _raise_unless_created(opened, refused)
            return refused
        return None

    return open_or_create(
        table,
        opened,
        create,
        commits=commits,
        lost="the Delta log is missing",
        way_out="Restore the folder _delta_log, from a backup or from versions of the bucket's objects",
    )


def _raise_unless_created(opened: Callable[[], object], refused: TableError) -> None:
    """Raise why a creation was refused, unless another process has created the table."""
    try:
        opened()
    except TableMissing:
        raise refused from None
