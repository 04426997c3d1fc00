"""Scenarios that put records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.emulators.recorded_api import HASH_KEYS, MIB, shard_id

if TYPE_CHECKING:
    from integration.emulators.recorded_api import RecordedApi


def putting(api: RecordedApi) -> None:
    api.create(3)
    record = api.name | {"PartitionKey": "a", "Data": b"d"}
    first = api("PutRecord", "a", **record)
    for key in ("A", "b"):
        api("PutRecord", key, **record | {"PartitionKey": key})
    api("PutRecord", "empty", **record | {"PartitionKey": "\u00e9\u4e16\U0001f30d", "Data": b""})
    api("PutRecord", "a long key", **record | {"PartitionKey": "k" * 256})
    third = HASH_KEYS // 3
    for key in (0, third - 1, third, 2 * third - 1, 2 * third, HASH_KEYS - 1):
        api("PutRecord", f"to {key}", **record, ExplicitHashKey=str(key))
    api("PutRecord", "in order", **record, SequenceNumberForOrdering=first["SequenceNumber"])
    for number in range(3):
        api.read(f"all of {number}", ShardId=shard_id(number))


def putting_with_invalid_arguments(api: RecordedApi) -> None:
    api.create(1)
    record = api.name | {"PartitionKey": "k", "Data": b"d"}
    api("PutRecord", "no data", **api.name, PartitionKey="k")
    api("PutRecord", "no key", **api.name, Data=b"d")
    api("PutRecord", "an empty key", **record | {"PartitionKey": ""})
    api("PutRecord", "too long a key", **record | {"PartitionKey": "k" * 257})
    api("PutRecord", "a word for a hash key", **record, ExplicitHashKey="one")
    api("PutRecord", "a hash key out of range", **record, ExplicitHashKey=str(HASH_KEYS))
    api("PutRecord", "a hash key of 40 digits", **record, ExplicitHashKey="1" * 40)
    api("PutRecord", "a word for ordering", **record, SequenceNumberForOrdering="one")
    api("PutRecord", "of 1 MiB", **record | {"Data": bytes(MIB - 1)})
    api("PutRecord", "of 1 MiB and 1 byte", **record | {"Data": bytes(MIB + 1)})
    api.read("only accepted records")


def putting_with_unusual_arguments(api: RecordedApi) -> None:
    """Arguments that some endpoints accept."""
    api.create(1)
    record = api.name | {"PartitionKey": "k", "Data": b"d"}
    api("PutRecord", "a padded hash key", **record, ExplicitHashKey="01")
    api("PutRecord", "an unknown number for ordering", **record, SequenceNumberForOrdering="1")
    api("PutRecord", "of 1 MiB and the key", **record | {"Data": bytes(MIB)})


def putting_many(api: RecordedApi) -> None:
    api.create(3)
    explicit = [
        {"PartitionKey": "k", "Data": f"{number}".encode(), "ExplicitHashKey": str(key)}
        for number, key in enumerate((0, HASH_KEYS - 1, 0, HASH_KEYS // 2, 1))
    ]
    hashed = [{"PartitionKey": f"key {number}", "Data": b""} for number in range(5)]
    api("PutRecords", "to hash keys", **api.name, Records=explicit)
    api("PutRecords", "to keys", **api.name, Records=hashed)
    for number in range(3):
        api.read(f"all of {number}", ShardId=shard_id(number))


def putting_many_with_invalid_arguments(api: RecordedApi) -> None:
    api.create(1)
    good = {"PartitionKey": "k", "Data": b"d"}
    for note, bad in {
        "no data": {"PartitionKey": "k"},
        "no key": {"Data": b"d"},
        "too long a key": good | {"PartitionKey": "k" * 257},
        "a word for a hash key": good | {"ExplicitHashKey": "one"},
        "a hash key out of range": good | {"ExplicitHashKey": str(HASH_KEYS)},
    }.items():
        api("PutRecords", note, **api.name, Records=[good, bad])
    api("PutRecords", "none", **api.name, Records=[])
    api("PutRecords", "without records", **api.name)
    api.read("no record of a failed call")


def putting_500(api: RecordedApi) -> None:
    api.create(1)
    record = {"PartitionKey": "k", "Data": b"d"}
    api("PutRecords", "500", **api.name, Records=[record] * 500)
    api("PutRecords", "501", **api.name, Records=[record] * 501)


def putting_many_with_a_large_one(api: RecordedApi) -> None:
    api.create(1)
    records = [{"PartitionKey": "k", "Data": bytes(size)} for size in (1, MIB + 1)]
    api("PutRecords", **api.name, Records=records)


def putting_10_mib(api: RecordedApi) -> None:
    api.create(1)
    records = [{"PartitionKey": "k", "Data": bytes(MIB - 1)}] * 10
    api("PutRecords", "exactly", **api.name, Records=records)
    api("PutRecords", "and more", **api.name, Records=[*records, {"PartitionKey": "k", "Data": b""}])


def dry_runs(api: RecordedApi) -> None:
    """Calls with DryRun."""
    api.create(1)
    record = {"PartitionKey": "k", "Data": b"d"}
    api("PutRecord", **api.name, **record, DryRun=True)
    api("PutRecords", **api.name, Records=[record], DryRun=True)
    api.iterator("dry", DryRun=True)
    api("GetRecords", ShardIterator=api.iterator("wet"), DryRun=True)
