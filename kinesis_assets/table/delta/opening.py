"""Opens and creates Delta tables, raw and derived.

Never import this module in a Spark task: the Rust library behind Delta Lake does not survive a fork. Errors
of that library are raised again without their cause: when S3 rejects a signature, its response repeats the
request, which includes the session token.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from kinesis_assets.errors import (
    RoleNotAssumed,
    TableMissing,
    TableUnreachable,
    TableUnsuitable,
    reason_of,
)
from kinesis_assets.retry import Backoff
from kinesis_assets.table.store.storage import has_metadata_of
from kinesis_assets.table.store.suitability import check_conditional_puts, not_writable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.table.store.storage import TableFolder

_Opened = TypeVar("_Opened")

_ERRORS = (DeltaError, OSError, RoleNotAssumed)
"""The errors of delta-rs, and of the credentials that it needs."""

_IS_ICEBERG = (
    "is an Iceberg table, of which only its catalog knows the newest version; nothing was changed. A stream "
    "needs format: iceberg and its catalog, or another folder. read_table and new_rows do not read it: use "
    "pyiceberg or Spark, or a table that is derived from it"
)

_CREATIONS = 5
"""How often to try to create a table that cannot be opened."""

_BACKOFF = Backoff(0.1, 1.0)
"""The waits between the tries."""


def open_delta(uri: str, folder: TableFolder, creator: str = "the first run") -> DeltaTable:
    """Open the newest version of a table.

    Args:
        uri: The table's path or URI, for errors.
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


@contextmanager
def delta_errors(uri: str, done: str, *, writes: bool = False) -> Iterator[None]:
    """Raise errors of delta-rs as one of the package, without their cause: see the top of this module.

    Args:
        uri: The table's path or URI, for the error.
        done: What is done to the table, such as "opened".
        writes: Whether that needs the permission to write.

    Raises:
        TableNotWritable: Writing is refused.
        TableUnreachable: delta-rs raised another error.
    """
    try:
        yield
    except _ERRORS as error:
        raise (not_writable(uri, error) if writes else None) or _unreachable(uri, done, error) from None


def open_or_create(
    opened: Callable[[], _Opened],
    uri: str,
    folder: TableFolder,
    schema: Mapping[str, Any],
    clock: Clock,
    *,
    partition_by: Sequence[str],
    configuration: Mapping[str, str],
    description: str | None = None,
) -> _Opened:
    """Open a table; create it if it does not exist. Of several processes, one creates it.

    Args:
        opened: Opens the table, and raises `TableMissing` if it does not exist.
        uri: The table's path or URI, for errors.
        schema: The schema of a new table, as in Delta's metadata.
        clock: The clock by which to wait for a table that another process creates.
        partition_by: The partition columns of a new table.
        configuration: The properties of a new table, also those that Delta does not know.

    Raises:
        StoreUnsuitable: The store ignores the condition of a conditional put. Nothing was created.
        TableNotWritable: The table cannot be created because writing is refused.
        TableUnreachable: The table can be neither opened nor created.
    """
    with suppress(TableMissing):
        return opened()
    check_conditional_puts(uri, folder)  # if the store cannot be reached, the creation reports it

    def refusal() -> Exception | None:
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
            return error
        return None

    failures = 0
    while True:
        refused = refusal()  # perhaps because another process has created the table
        try:
            return opened()
        except TableMissing as missing:
            if final := refused and not_writable(uri, refused):
                raise final from None
            failures += 1
            # A store may refuse a second creation before the first can be read, by an error of Delta only.
            if failures == _CREATIONS or isinstance(refused, OSError | RoleNotAssumed):
                raise _unreachable(uri, "created", refused or missing) from None
        clock.sleep(_BACKOFF.wait(failures))


def _unreachable(uri: str, done: str, error: Exception) -> TableUnreachable:
    advice = error.advice if isinstance(error, RoleNotAssumed) else ""
    return TableUnreachable(uri, f"cannot be {done}: {reason_of(error)}", advice=advice)
