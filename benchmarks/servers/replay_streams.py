"""The streams of the replay server: responses to GetRecords that are serialized in advance.

A response body is built once and sent unchanged. A page with other bounds than those of the stream's own
pages (another Limit, or a position inside a page) is built on the first request for it, and kept.
"""

from __future__ import annotations

import base64
import time

import msgspec

from benchmarks.data.payloads import Payloads
from benchmarks.harness.units import MIB
from kinesis_assets.emulator.shards import SequenceNumber

MAX_PAYLOADS = 4096
"""Maximum number of different payloads in a stream. A page of a Parquet column, the unit of compression, has
fewer rows, so that no payload occurs twice in it."""

MAX_PAYLOAD_BYTES = 64 * MIB
"""Maximum size of the different payloads together."""

ARRIVAL_WINDOW_MS = 600_000
"""The records of a shard arrived within this time before the stream was created."""

MIN_BEHIND_MS = 2000
"""Minimum MillisBehindLatest of a page that is not the last one. Some consumers stop at less than a
second."""

ERA = 0x1F3_0000


class StreamSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The definition of a stream.

    Attributes:
        shards: Number of open shards, with hash ranges of equal size.
        pages: Full pages in each shard; 0 for shards without records.
        page_records: Records in a page. No response contains more, whatever its Limit.
        record_bytes: Bytes of a record's payload.
        throttled: Refuse calls above five calls and 2 MB per second and shard, as Kinesis does.
    """

    name: str
    shards: int
    pages: int
    page_records: int
    record_bytes: int = 1000
    throttled: bool = False

    @property
    def shard_records(self) -> int:
        """Records in a shard."""
        return self.pages * self.page_records

    @property
    def records(self) -> int:
        """Records in all shards."""
        return self.shards * self.shard_records

    @property
    def data_bytes(self) -> int:
        """Payload bytes in all shards."""
        return self.records * self.record_bytes


class ReplayStream:
    """A stream whose records never change.

    Attributes:
        spec: Its definition.
        created: The time of its creation, in whole seconds since the epoch.
    """

    def __init__(self, spec: StreamSpec) -> None:
        self.spec = spec
        self.created = int(time.time())
        source = Payloads()
        distinct = max(1, min(MAX_PAYLOADS, MAX_PAYLOAD_BYTES // spec.record_bytes, spec.records))
        self._fragments = [
            b'E9,"Data":"%s","PartitionKey":"customer-%05d","SequenceNumber":"'
            % (base64.b64encode(source.payload(spec.record_bytes)), number)
            for number in range(distinct)
        ]
        first, second = (int(str(SequenceNumber(ERA, 0, ordinal, self.created))) for ordinal in (0, 1))
        self._step = second - first
        self._bases = [
            int(str(SequenceNumber(ERA, shard, 0, self.created - 60))) for shard in range(spec.shards)
        ]
        self._pages: dict[tuple[int, int, int], bytes] = {}
        for shard in range(spec.shards):
            for page in range(spec.pages):
                self.page(shard, page * spec.page_records, spec.page_records)

    def page(self, shard: int, first: int, limit: int) -> bytes:
        """Return the response body that begins at a record of a shard, both counted from 0."""
        count = min(limit, self.spec.page_records, self.spec.shard_records - first)
        if count <= 0:
            return self._body(shard, first, 0)
        key = (shard, first, count)
        body = self._pages.get(key)
        if body is None:
            body = self._pages[key] = self._body(shard, first, count)
        return body

    def first_sequence_number(self, shard: int) -> str:
        """Return a lower bound for the sequence numbers of a shard."""
        return str(self._bases[shard])

    def index_of(self, shard: int, sequence_number: str) -> int:
        """Return the index of the first record with at least this sequence number."""
        return max(0, -((self._bases[shard] - int(sequence_number)) // self._step) - 1)

    def index_at(self, seconds: float) -> int:
        """Return the index of the first record, in any shard, that arrived at or after a time since the
        epoch.
        """
        target = round(seconds * 1000)
        low, high = 0, self.spec.shard_records
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._arrival_ms(middle) < target else (low, middle)
        return low

    def _arrival_ms(self, index: int) -> int:
        behind = ARRIVAL_WINDOW_MS * (self.spec.shard_records - index) // max(1, self.spec.shard_records)
        return self.created * 1000 - behind

    def _body(self, shard: int, first: int, count: int) -> bytes:
        after = first + count
        behind = 0
        if after < self.spec.shard_records:
            behind = max(MIN_BEHIND_MS, self.created * 1000 - self._arrival_ms(after))
        base, step, fragments = self._bases[shard], self._step, self._fragments
        distinct, begin = len(fragments), shard * self.spec.shard_records
        records = b",".join(
            b"".join(
                (
                    _arrival(self._arrival_ms(index)),
                    fragments[(begin + index) % distinct],
                    b'%d"}' % (base + (index + 1) * step),
                )
            )
            for index in range(first, after)
        )
        return b'{"MillisBehindLatest":%d,"NextShardIterator":"%s","Records":[%s]}' % (
            behind,
            iterator(self.spec.name, shard, after).encode(),
            records,
        )


def iterator(stream: str, shard: int, index: int) -> str:
    """Return a shard iterator, which never expires."""
    return f"{stream}:{shard}:{index}"


def _arrival(milliseconds: int) -> bytes:
    """Return the beginning of a record: its arrival time as Kinesis writes it, but without the exponent."""
    digits = b"%d" % milliseconds
    return b'{"ApproximateArrivalTimestamp":' + digits[:1] + b"." + digits[1:]
