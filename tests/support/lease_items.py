"""A DynamoDB table with items as the Kinesis Client Library and Redpanda Connect write them."""

from __future__ import annotations

from functools import cache
from typing import Any
from uuid import uuid4

import boto3
from botocore.config import Config

from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.operations.leases.lease_table import LeaseTable


@cache
def _client(endpoint: str) -> Any:
    return boto3.client("dynamodb", endpoint_url=endpoint, config=Config(retries={"max_attempts": 9}))


class LeaseItems:
    """A table that no other test uses.

    Attributes:
        name: The name of the table.
        endpoint: The endpoint of DynamoDB.
    """

    def __init__(self, endpoint: str, *key: str, name: str | None = None) -> None:
        self.name, self.endpoint = name or f"leases-{uuid4().hex[:8]}", endpoint
        names = key or ("leaseKey",)
        self.dynamodb = _client(endpoint)
        self.dynamodb.create_table(
            TableName=self.name,
            KeySchema=[
                {"AttributeName": name, "KeyType": kind}
                for name, kind in zip(names, ("HASH", "RANGE"), strict=False)
            ],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in names],
            BillingMode="PAY_PER_REQUEST",
        )

    def delete(self) -> None:
        """Delete the table, whose name another test may use."""
        self.dynamodb.delete_table(TableName=self.name)

    @property
    def table(self) -> LeaseTable:
        """The table as the product uses it."""
        return LeaseTable(self.name, ClientSettings(endpoint_url=self.endpoint))

    def put(self, **values: str | int | list[str]) -> None:
        """Put an item: texts, numbers, and sets of texts."""
        item = {
            name: {"S": value}
            if isinstance(value, str)
            else {"N": str(value)}
            if isinstance(value, int)
            else {"SS": value}
            for name, value in values.items()
        }
        self.dynamodb.put_item(TableName=self.name, Item=item)

    def lease(self, key: str, checkpoint: str, sub: int = 0, /, **others: str | int | list[str]) -> None:
        """Put a lease with what each release of the KCL writes."""
        values: dict[str, str | int | list[str]] = {
            "leaseKey": key,
            "leaseCounter": 7,
            "ownerSwitchesSinceCheckpoint": 1,
            "checkpoint": checkpoint,
            "checkpointSubSequenceNumber": sub,
        }
        self.put(**(values | others))

    @property
    def items(self) -> dict[str, dict[str, Any]]:
        """The items by their first attribute of the key, each with plain values."""
        found = self.dynamodb.scan(TableName=self.name, ConsistentRead=True)["Items"]
        plain = [{name: _plain(value) for name, value in item.items()} for item in found]
        return {item.get("leaseKey", item.get("ShardID")): item for item in plain}


def _plain(value: dict[str, Any]) -> Any:
    ((kind, content),) = value.items()
    return {"N": int, "SS": sorted}.get(kind, str)(content)
