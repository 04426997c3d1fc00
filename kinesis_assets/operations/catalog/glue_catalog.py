"""Calls to the AWS Glue Data Catalog: one entry is read, created or replaced, and those of a database listed.

UpdateTable replaces an entry only if it still has the version that was read (AWS Glue Web API, `UpdateTable`,
`VersionId`), so what others change in between is not lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import botocore
from botocore.exceptions import BotoCoreError, ClientError

from kinesis_assets.errors import CatalogFailed, RoleNotAssumed
from kinesis_assets.kinesis.sdk import sdk_client
from kinesis_assets.operations.catalog.entry import is_marked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.operations.catalog.entry import Entry, Found

_NOT_FOUND = "EntityNotFoundException"
_DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnrecognizedClientException"})
_THROTTLED = frozenset({"OperationTimeoutException", "ThrottlingException"})

_LAKE_FORMATION = (
    "Lake Formation manages the database. Grant the caller CREATE_TABLE and DESCRIBE on the database "
    "{database}, ALTER and DESCRIBE on its tables, and DATA_LOCATION_ACCESS on the location of the table if "
    "that is registered"
)

_MAX_PAGES = 100


class GlueCatalog:
    """The databases of a Data Catalog. Each call is attempted once, unless there are more attempts.

    Raises:
        CatalogFailed: The client cannot be created.
    """

    def __init__(self, settings: ClientSettings, attempts: int = 1) -> None:
        try:
            self._client = sdk_client(settings, attempts, "glue")
        except RoleNotAssumed as error:
            raise CatalogFailed(error.reason, advice=error.advice) from None
        except (BotoCoreError, ValueError) as error:
            # The SDK's error is not chained: it may repeat credentials in the endpoint URL.
            raise CatalogFailed(
                f"cannot create a client of AWS Glue: {error}",
                advice="Correct region_name of the setting catalog, or the AWS configuration of this process",
            ) from None

    def find(self, database: str, name: str) -> Found | None:
        """Return an entry; None if it, or its database, does not exist. Raises `CatalogFailed`."""
        try:
            found: Found = self._call("GetTable", database, Name=name)["Table"]
        except CatalogFailed as error:
            if error.code == _NOT_FOUND:
                return None
            raise
        return found

    def create(self, entry: Entry) -> bool:
        """Create an entry; return False if there is one.

        Raises:
            CatalogFailed: The call failed, or the database does not exist.
        """
        try:
            self._call("CreateTable", entry.database, TableInput=entry.table_input())
        except CatalogFailed as error:
            if error.code == "AlreadyExistsException":
                return False
            raise
        return True

    def replace(self, entry: Entry, found: Found) -> bool:
        """Replace an entry that was found; return False if somebody has changed it since.

        Raises:
            CatalogFailed: The call failed.
        """
        version = {"VersionId": found["VersionId"]} if "VersionId" in found else {}
        try:
            self._call("UpdateTable", entry.database, TableInput=entry.table_input(found), **version)
        except CatalogFailed as error:
            if error.code in {"ConcurrentModificationException", _NOT_FOUND}:
                return False
            raise
        return True

    def marked(self, database: str) -> Iterator[Found]:
        """Yield the entries of a database that this package made. Raises `CatalogFailed`."""
        following: dict[str, Any] = {}
        for _ in range(_MAX_PAGES):
            page = self._call("GetTables", database, **following)
            yield from filter(is_marked, page.get("TableList", ()))
            if not (token := page.get("NextToken")):
                return
            following = {"NextToken": token}
        raise CatalogFailed(f"GetTables: the database {database} has more than {_MAX_PAGES} pages of tables")

    def _call(self, operation: str, database: str, **arguments: Any) -> dict[str, Any]:
        method = getattr(self._client, botocore.xform_name(operation))
        try:
            response: dict[str, Any] = method(DatabaseName=database, **arguments)
        except ClientError as error:
            detail = error.response["Error"]
            # The SDK's error is not chained: for a rejected signature it may repeat the session token.
            raise _failed(operation, database, detail.get("Code", ""), detail.get("Message", "")) from None
        except RoleNotAssumed as error:
            raise CatalogFailed(error.reason, advice=error.advice) from None
        except BotoCoreError as error:
            raise _failed(operation, database, type(error).__name__, str(error)) from None
        return response


def _failed(operation: str, database: str, code: str, message: str) -> CatalogFailed:
    advice = "Check the network, and the region of the setting catalog"
    if code in _THROTTLED:
        advice = "It is tried again"
    elif code in _DENIED:
        advice = (
            f"Allow glue:{operation} on the catalog, on the database {database} and on its tables, see "
            "docs/permissions.md"
        )
        if "Lake Formation" in message:
            advice = _LAKE_FORMATION.format(database=database)
    elif code == _NOT_FOUND:
        advice = f"Correct database, or create it: aws glue create-database --database-input Name={database}"
        message = message or f"there is no database {database}"
    elif code == "InvalidInputException":
        advice = "Correct name or database of the setting catalog, or the columns of the table"
    return CatalogFailed(f"{operation} failed with {code}: {message}", advice=advice, code=code)
