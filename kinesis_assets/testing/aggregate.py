"""Aggregates as the Kinesis Producer Library puts them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.records.aggregation import MAGIC, AggregatedRecord

if TYPE_CHECKING:
    from collections.abc import Iterable


class UserRecord(NamedTuple):
    """One record to go into an aggregate.

    Attributes:
        partition_key: Its partition key.
        data: Its payload.
        explicit_hash_key: Decimal text from 0 to 2^128-1; None leaves the hash key to the partition key.
    """

    partition_key: str
    data: bytes
    explicit_hash_key: str | None = None


def aggregate(records: Iterable[UserRecord]) -> bytes:
    """The data of one Kinesis record with all these records in it, in their order.

    The KPL itself puts a single record plain; here one gives an aggregate too. Nothing looks at shards: to
    have all of them in one, give them explicit hash keys of its range.

    Source: https://github.com/awslabs/amazon-kinesis-producer/blob/master/aggregation-format.md

    Raises:
        InvalidInput: There is no record.
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
        raise InvalidInput("an aggregate has at least one record")
    message.partition_key_table.extend(key.encode() for key in keys)
    message.explicit_hash_key_table.extend(key.encode() for key in hash_keys)
    body: bytes = message.SerializeToString()
    return MAGIC + body + hashlib.md5(body, usedforsecurity=False).digest()
