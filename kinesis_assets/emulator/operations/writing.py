"""PutRecord and PutRecords."""

from __future__ import annotations

from binascii import a2b_base64
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from kinesis_assets.emulator.requests import StreamRequest, invalid
from kinesis_assets.emulator.shapes import (
    DryRunOperationException,
    HashKey,
    InvalidArgumentException,
    Member,
    PartitionKey,
    SequenceNumberText,
    SerializationException,
)
from kinesis_assets.emulator.shards import HASH_KEYS, SequenceNumber, hash_key, record_size

if TYPE_CHECKING:
    from kinesis_assets.emulator.account import Account, Stream

MAX_REQUEST_BYTES = 10 * 1024 * 1024
"""The maximum size of a PutRecords request in bytes of decoded data and partition keys."""


class PutRecordOutput(Member):
    """The shard and sequence number of a record. It is also an entry of PutRecordsOutput."""

    shard_id: str
    sequence_number: str


class PutRecordsOutput(Member):
    """The shard and sequence number of each record, in the order of the request."""

    failed_record_count: int
    records: list[PutRecordOutput]


class Entry(Member, gc=False):
    """A record to put. The data is base64."""

    data: str
    partition_key: PartitionKey | None = None
    explicit_hash_key: HashKey | None = None


class PutRecord(StreamRequest, kw_only=True):
    """Put one record."""

    data: str
    partition_key: PartitionKey | None = None
    explicit_hash_key: HashKey | None = None
    sequence_number_for_ordering: SequenceNumberText | None = None
    dry_run: bool | None = None

    def execute(self, account: Account) -> PutRecordOutput:
        stream = self.stream(account)
        return _put(stream, self.checked(stream))[0]

    def checked(self, stream: Stream) -> list[tuple[Entry, int | None]]:
        """Return the record and its hash key, which is None if the stream ignores it.

        Raises:
            ServiceError: The stream refuses the record.
        """
        entry = Entry(self.data, self.partition_key, self.explicit_hash_key)
        target = _hash_key(stream, entry, "Data")
        ordering = self.sequence_number_for_ordering
        if ordering is not None and stream.distribution == "AUTO":
            raise InvalidArgumentException(
                "SequenceNumberForOrdering is not supported where RecordDistributionStrategy is AUTO."
            )
        # The number is not used any further, because records are always stored in the order of the puts.
        if ordering is not None and SequenceNumber.parse(ordering) is None:
            raise InvalidArgumentException(
                f"ExclusiveMinimumSequenceNumber {ordering} used in PutRecord on {stream} is invalid."
            )
        if self.dry_run:
            raise DryRunOperationException
        return [(entry, target)]


class PutRecords(StreamRequest, kw_only=True):
    """Put up to 500 records. If one is invalid, none is put."""

    records: Annotated[list[Entry], Meta(min_length=1, max_length=500)]
    dry_run: bool | None = None

    def execute(self, account: Account) -> PutRecordsOutput:
        stream = self.stream(account)
        return PutRecordsOutput(failed_record_count=0, records=_put(stream, self.checked(stream)))

    def checked(self, stream: Stream) -> list[tuple[Entry, int | None]]:
        """Return the records and their hash keys, see `PutRecord.checked`."""
        checked = [
            (entry, _hash_key(stream, entry, f"Records[{number}].Data"))
            for number, entry in enumerate(self.records)
        ]
        if sum(record_size(entry.data, entry.partition_key) for entry in self.records) > MAX_REQUEST_BYTES:
            raise InvalidArgumentException("Records size exceeds 10 MB limit")
        if self.dry_run:
            raise DryRunOperationException
        return checked


def _hash_key(stream: Stream, entry: Entry, path: str) -> int | None:
    """Validate a record and return its hash key, or None if the stream ignores hash keys."""
    if entry.partition_key is None and stream.distribution != "AUTO":
        raise invalid(f"Object missing required field `PartitionKey` beside `{path}`")
    try:
        a2b_base64(entry.data, strict_mode=True)
    except ValueError as error:
        raise SerializationException(
            f"The value at '{path}' can not be converted to a Blob: {error}"
        ) from error
    limit = stream.max_record_size_kib * 1024
    if record_size(entry.data, entry.partition_key) > limit:
        raise invalid(f"Expected at most {limit} bytes - at `{path}`")
    if stream.distribution == "AUTO":
        return None
    if entry.explicit_hash_key is None:
        return hash_key(str(entry.partition_key))
    target = int(entry.explicit_hash_key)
    if target >= HASH_KEYS:
        raise InvalidArgumentException(
            "Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]. "
            f"Specified value was {entry.explicit_hash_key}"
        )
    return target


def _put(stream: Stream, checked: list[tuple[Entry, int | None]]) -> list[PutRecordOutput]:
    now = stream.clock.now()
    outputs = []
    for entry, target in checked:
        shard = stream.distribute() if target is None else stream.shard_for(target)
        record = shard.put(entry.data, entry.partition_key, now)
        outputs.append(PutRecordOutput(shard.shard_id, record.sequence_number))
    return outputs
