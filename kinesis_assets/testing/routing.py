"""Routing: the shards that receive the records of a put."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kinesis_assets.emulator.errors import ServiceError
from kinesis_assets.emulator.hash_keys import hash_key
from kinesis_assets.emulator.operations.writing import PutRecord, PutRecords

if TYPE_CHECKING:
    from kinesis_assets.emulator.account import Account


def shards_of(operation: str, arguments: dict[str, Any], account: Account) -> list[str]:
    """Return the shard id of each record of a PutRecord or PutRecords call, in order.

    The list is empty if the service will refuse the call.
    """
    kind: type[PutRecord | PutRecords] = PutRecord if operation == "PutRecord" else PutRecords
    try:
        request = msgspec.convert(arguments, kind)
        entries = [request] if isinstance(request, PutRecord) else request.records
        with account.lock:
            stream = request.stream(account)
            if stream.distribution == "AUTO":
                return [shard.shard_id for shard in stream.next_shards(len(entries))]
            if any(entry.partition_key is None for entry in entries):
                return []
            keys = [
                hash_key(str(entry.partition_key))
                if entry.explicit_hash_key is None
                else int(entry.explicit_hash_key)
                for entry in entries
            ]
            return [stream.shard_for(key).shard_id for key in keys]
    except (msgspec.ValidationError, ServiceError):
        return []
