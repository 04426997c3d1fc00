"""Aggregated records in the format of the Kinesis Producer Library (KPL)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.records.aggregation import MAGIC, AggregatedRecord

if TYPE_CHECKING:
    from collections.abc import Iterable


class UserRecord(NamedTuple):
    """A record to aggregate.

    Attributes:
        partition_key: The partition key.
        data: The payload.
        explicit_hash_key: The hash key as decimal text from 0 to 2^128-1. None derives it from the partition
            key.
    """

    partition_key: str
    data: bytes
    explicit_hash_key: str | None = None


def aggregate(records: Iterable[UserRecord]) -> bytes:
    """Encode records as the data of one Kinesis record.

    Unlike the KPL, this also encodes a single record as an aggregate. The records are not assigned to shards;
    if they must belong to one shard, set explicit hash keys within its range.

    Source: https://github.com/awslabs/amazon-kinesis-producer/blob/master/aggregation-format.md

    Raises:
        InvalidInput: `records` is empty.
    """
    message = AggregatedRecord()
    keys: dict[str, int] = {}
    hash_keys: dict[str, int] = {}
    for record in records:
        sub = message.records.add(
            partition_key_index=keys.setdefault(record.partition_key, len(keys)), data=record.data
        )
        if record.explicit_hash_key is not None:
            sub.explicit_hash_key_index = hash_keys.setdefault(record.explicit_hash_key, len(hash_keys))
    if not keys:
        raise InvalidInput("an aggregate needs at least one record")
    message.partition_key_table.extend(key.encode() for key in keys)
    message.explicit_hash_key_table.extend(key.encode() for key in hash_keys)
    body: bytes = message.SerializeToString()
    return MAGIC + body + hashlib.md5(body, usedforsecurity=False).digest()
