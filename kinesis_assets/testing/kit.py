"""What tests need besides the stream: aggregated records, a clock, and environment variables."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, NamedTuple

from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.records.aggregation import MAGIC, AggregatedRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kinesis_assets.emulator import LocalKinesis


class UserRecord(NamedTuple):
    """A record to aggregate.

    Attributes:
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


class Clock:
    """The service's clock in a test, which only moves when it is advanced: `LocalKinesis(now=clock)`.

    It determines arrival times, retention, the expiry of iterators and the `Date` header. It starts at the
    current second. It must not go back, because the service's time never does.

    Attributes:
        seconds: The current time in seconds since the epoch.
    """

    def __init__(self) -> None:
        self.seconds = float(int(time.time()))

    def __call__(self) -> float:
        """Return the current time in seconds since the epoch."""
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self.seconds += seconds


def aws_environment(local: LocalKinesis) -> dict[str, str]:
    """Return environment variables with which an AWS SDK uses the embedded stream by default.

    The credentials are placeholders. The embedded stream does not check signatures.
    """
    return {
        "AWS_ENDPOINT_URL_KINESIS": local.endpoint_url,
        "AWS_REGION": local.region,
        "AWS_DEFAULT_REGION": local.region,
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
    }
