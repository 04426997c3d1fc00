"""A DynamoDB table with the positions of another consumer: consistent reads and conditional writes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import botocore
from botocore.exceptions import BotoCoreError, ClientError

from kinesis_assets.errors import InvalidInput, LeasesRefused, LeaseTableFailed, RoleNotAssumed
from kinesis_assets.kinesis.sdk import ATTEMPTS, sdk_client

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kinesis_assets.kinesis.settings import ClientSettings

Item = dict[str, dict[str, Any]]
"""An item in the form of the API: by attribute, a value by its type."""


_THROTTLED = frozenset(
    {"ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingException"}
)


def region_of(name: str, default: str | None) -> str | None:
    """Return the region of a table: that of its ARN, or by its name a default."""
    arn = re.fullmatch(r"arn:[^:]+:dynamodb:([a-z0-9-]+):.+", name)
    return default if arn is None else arn[1]


class LeaseTable:
    """A DynamoDB table.

    Raises:
        InvalidInput: The settings are invalid.
        RoleNotAssumed: The role of the settings cannot be assumed.
    """

    def __init__(self, name: str, settings: ClientSettings, attempts: int = ATTEMPTS) -> None:
        self.name = name
        try:
            self._client = sdk_client(settings, attempts, "dynamodb")
        except (BotoCoreError, ValueError) as error:
            # The SDK's error is not chained: it may repeat credentials in the endpoint URL.
            raise InvalidInput(
                f"lease table {name}: cannot create a DynamoDB client: {error}",
                advice="Correct the region, the endpoint or the profile of the lease table",
            ) from None

    def items(self) -> list[Item]:
        """Return all items by a consistent scan.

        Raises:
            LeaseTableFailed: The scan failed.
        """
        found: list[Item] = []
        following: dict[str, Any] = {}
        while True:
            page = self._call("Scan", ConsistentRead=True, **following)
            found += page.get("Items", [])
            if not (key := page.get("LastEvaluatedKey")):
                return found
            if following == {"ExclusiveStartKey": key}:
                raise LeaseTableFailed(
                    f"lease table {self.name}: Scan returned the same page twice; run again"
                )
            following = {"ExclusiveStartKey": key}

    def items_at_rest(
        self,
        stream: str,
        signs_of_life: Callable[[Sequence[Item]], Mapping[str, Item]],
        *,
        seconds: float,
        sleep: Callable[[float], object],
    ) -> list[Item]:
        """Return all items, if those of a stream do not change within a time: their owner would renew them.

        Args:
            signs_of_life: Returns those items that the consumer changes while it reads the stream, by name.
            seconds: The time within which it changes them.

        Raises:
            LeasesRefused: Items have changed.
            LeaseTableFailed: A scan failed.
        """
        items = self.items()
        before = signs_of_life(items)
        if not before:
            return items
        sleep(seconds)
        items = self.items()
        after = signs_of_life(items)
        changed = {
            name: f"it changed within {seconds:g} s, so its owner is alive. Stop the consumer first, and "
            "wait until it has shut down"
            for name in sorted({*before, *after})
            if before.get(name) != after.get(name)
        }
        if changed:
            raise LeasesRefused(stream, changed)
        return items

    def put(self, item: Item, key: str) -> bool:
        """Write a new item; return False if there is one with this key.

        Raises:
            LeaseTableFailed: The call failed, so it is unknown whether the item was written.
        """
        return self._write("PutItem", Item=item, ConditionExpression=f"attribute_not_exists({key})")

    def update(
        self, key: Item, values: Mapping[str, Any], remove: Sequence[str], unless_changed: Item
    ) -> bool:
        """Set and remove attributes of an item; return False if it has changed.

        Args:
            unless_changed: The attributes that must have these values; an empty value means none.

        Raises:
            LeaseTableFailed: The call failed, so it is unknown whether the item was written.
        """
        names = {*values, *remove, *unless_changed}
        aliases = {name: f"#n{number}" for number, name in enumerate(sorted(names))}
        sets = ", ".join(f"{aliases[name]} = :new{number}" for number, name in enumerate(values))
        removed = f" REMOVE {', '.join(aliases[name] for name in remove)}" if remove else ""
        conditions, old = [], {}
        for number, (name, value) in enumerate(unless_changed.items()):
            if value:
                conditions.append(f"{aliases[name]} = :old{number}")
                old[f":old{number}"] = value
            else:
                conditions.append(f"attribute_not_exists({aliases[name]})")
        return self._write(
            "UpdateItem",
            Key=key,
            UpdateExpression=f"SET {sets}{removed}",
            ConditionExpression=" AND ".join(conditions),
            ExpressionAttributeNames={alias: name for name, alias in aliases.items()},
            ExpressionAttributeValues={f":new{n}": value for n, value in enumerate(values.values())} | old,
        )

    def _write(self, operation: str, **arguments: Any) -> bool:
        try:
            self._call(operation, **arguments)
        except LeaseTableFailed as error:
            if error.code == "ConditionalCheckFailedException":
                return False
            raise
        return True

    def _call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        method = getattr(self._client, botocore.xform_name(operation))
        try:
            response: dict[str, Any] = method(TableName=self.name, **arguments)
        except ClientError as error:
            detail = error.response["Error"]
            # The SDK's error is not chained: for a rejected signature it may repeat the session token.
            raise self._failed(operation, detail.get("Code", ""), detail.get("Message", "")) from None
        except RoleNotAssumed as error:
            raise LeaseTableFailed(f"lease table {self.name}: {error.reason}", advice=error.advice) from None
        except BotoCoreError as error:
            raise self._failed(operation, type(error).__name__, str(error)) from error
        return response

    def _failed(self, operation: str, code: str, message: str) -> LeaseTableFailed:
        advice = f"Check the table, its region, the credentials and their permission dynamodb:{operation}"
        if code in _THROTTLED:
            advice = "Raise its capacity, or run again later"
        if code == "ResourceNotFoundException":
            advice = (
                "Check its name and region. The table of a new application is created by `aws dynamodb "
                f"create-table --table-name {self.name} --billing-mode PAY_PER_REQUEST "
                "--attribute-definitions AttributeName=leaseKey,AttributeType=S "
                "--key-schema AttributeName=leaseKey,KeyType=HASH`"
            )
        reason = f"lease table {self.name}: {operation} failed with {code}: {message}"
        return LeaseTableFailed(reason, advice=advice, code=code)
