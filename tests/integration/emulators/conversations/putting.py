"""On putting records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.emulators.talk import HASH_KEYS, MIB, shard_id

if TYPE_CHECKING:
    from integration.emulators.talk import Talk


def putting(talk: Talk) -> None:
    talk.create(3)
    record = talk.name | {"PartitionKey": "a", "Data": b"d"}
    first = talk("PutRecord", "a", **record)
    for key in ("A", "b"):
        talk("PutRecord", key, **record | {"PartitionKey": key})
    talk("PutRecord", "empty", **record | {"PartitionKey": "\u00e9\u4e16\U0001f30d", "Data": b""})
    talk("PutRecord", "a long key", **record | {"PartitionKey": "k" * 256})
    third = HASH_KEYS // 3
    for key in (0, third - 1, third, 2 * third - 1, 2 * third, HASH_KEYS - 1):
        talk("PutRecord", f"to {key}", **record, ExplicitHashKey=str(key))
    talk("PutRecord", "in order", **record, SequenceNumberForOrdering=first["SequenceNumber"])
    for number in range(3):
        talk.read(f"all of {number}", ShardId=shard_id(number))


def putting_badly(talk: Talk) -> None:
    talk.create(1)
    record = talk.name | {"PartitionKey": "k", "Data": b"d"}
    talk("PutRecord", "no data", **talk.name, PartitionKey="k")
    talk("PutRecord", "no key", **talk.name, Data=b"d")
    talk("PutRecord", "an empty key", **record | {"PartitionKey": ""})
    talk("PutRecord", "too long a key", **record | {"PartitionKey": "k" * 257})
    talk("PutRecord", "a word for a hash key", **record, ExplicitHashKey="one")
    talk("PutRecord", "a hash key out of range", **record, ExplicitHashKey=str(HASH_KEYS))
    talk("PutRecord", "a hash key of 40 digits", **record, ExplicitHashKey="1" * 40)
    talk("PutRecord", "a word to be after", **record, SequenceNumberForOrdering="one")
    talk("PutRecord", "of 1 MiB", **record | {"Data": bytes(MIB - 1)})
    talk("PutRecord", "of 1 MiB and 1 byte", **record | {"Data": bytes(MIB + 1)})
    talk.read("only what was taken")


def putting_almost_badly(talk: Talk) -> None:
    """What some take."""
    talk.create(1)
    record = talk.name | {"PartitionKey": "k", "Data": b"d"}
    talk("PutRecord", "a padded hash key", **record, ExplicitHashKey="01")
    talk("PutRecord", "a number of none to be after", **record, SequenceNumberForOrdering="1")
    talk("PutRecord", "of 1 MiB and the key", **record | {"Data": bytes(MIB)})


def putting_many(talk: Talk) -> None:
    talk.create(3)
    explicit = [
        {"PartitionKey": "k", "Data": f"{number}".encode(), "ExplicitHashKey": str(key)}
        for number, key in enumerate((0, HASH_KEYS - 1, 0, HASH_KEYS // 2, 1))
    ]
    hashed = [{"PartitionKey": f"key {number}", "Data": b""} for number in range(5)]
    talk("PutRecords", "to hash keys", **talk.name, Records=explicit)
    talk("PutRecords", "to keys", **talk.name, Records=hashed)
    for number in range(3):
        talk.read(f"all of {number}", ShardId=shard_id(number))


def putting_many_badly(talk: Talk) -> None:
    talk.create(1)
    good = {"PartitionKey": "k", "Data": b"d"}
    for note, bad in {
        "no data": {"PartitionKey": "k"},
        "no key": {"Data": b"d"},
        "too long a key": good | {"PartitionKey": "k" * 257},
        "a word for a hash key": good | {"ExplicitHashKey": "one"},
        "a hash key out of range": good | {"ExplicitHashKey": str(HASH_KEYS)},
    }.items():
        talk("PutRecords", note, **talk.name, Records=[good, bad])
    talk("PutRecords", "none", **talk.name, Records=[])
    talk("PutRecords", "not at all", **talk.name)
    talk.read("nothing of a refused call")


def putting_500(talk: Talk) -> None:
    talk.create(1)
    record = {"PartitionKey": "k", "Data": b"d"}
    talk("PutRecords", "500", **talk.name, Records=[record] * 500)
    talk("PutRecords", "501", **talk.name, Records=[record] * 501)


def putting_many_with_a_large_one(talk: Talk) -> None:
    talk.create(1)
    records = [{"PartitionKey": "k", "Data": bytes(size)} for size in (1, MIB + 1)]
    talk("PutRecords", **talk.name, Records=records)


def putting_10_mib(talk: Talk) -> None:
    talk.create(1)
    records = [{"PartitionKey": "k", "Data": bytes(MIB - 1)}] * 10
    talk("PutRecords", "exactly", **talk.name, Records=records)
    talk("PutRecords", "and more", **talk.name, Records=[*records, {"PartitionKey": "k", "Data": b""}])


def trying(talk: Talk) -> None:
    """Dry runs."""
    talk.create(1)
    record = {"PartitionKey": "k", "Data": b"d"}
    talk("PutRecord", **talk.name, **record, DryRun=True)
    talk("PutRecords", **talk.name, Records=[record], DryRun=True)
    talk.iterator("dry", DryRun=True)
    talk("GetRecords", ShardIterator=talk.iterator("wet"), DryRun=True)
