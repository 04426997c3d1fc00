"""Streams as the replay server holds them: GetRecords pages, serialised before anyone asks for them.

A body is made once and then sent as it is. Pages that begin or end elsewhere than the stream's own (another
Limit, a position inside a page) are made when they are first asked for, and kept.
"""

from __future__ import annotations

import base64
import time

import msgspec

from benchmarks.data.payloads import Payloads
from kinesis_assets.emulator.sequence_numbers import SequenceNumber

MIB = 1 << 20
PAYLOADS = 4096
"""Different payloads of a stream at most: more than the rows of one page of a Parquet column, the unit of its
compression, so none is found twice in it."""

PAYLOAD_BYTES = 64 * MIB
"""They hold at most so much together."""

SPREAD_MS = 600_000
"""The records of a shard arrived within so long before the stream was made."""

LEAST_BEHIND_MS = 2000
"""A page that is not the last one is behind by at least this: some consumers stop when less than a second
behind."""

ERA = 0x1F3_0000


class StreamSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stream to be served.

    Attributes:
        name: Its name.
        shards: Open shards, whose hash ranges are even.
        pages: Full pages of each shard; 0 for shards without a record.
        page_records: Records of a page: no answer has more, whatever its Limit.
        record_bytes: Payload of a record.
        throttled: Refuse what goes above five calls and 2 MB a second and shard, as the service does.
    """

    name: str
    shards: int
    pages: int
    page_records: int
    record_bytes: int = 1000
    throttled: bool = False

    @property
    def shard_records(self) -> int:
        """Records of a shard."""
        return self.pages * self.page_records

    @property
    def records(self) -> int:
        """Records of all shards."""
        return self.shards * self.shard_records

    @property
    def data_bytes(self) -> int:
        """Payload bytes of all shards."""
        return self.records * self.record_bytes


class ReplayStream:
    """One stream, whose records never change.

    Attributes:
        spec: As it was asked for.
        created: Seconds since the epoch, whole.
    """

    def __init__(self, spec: StreamSpec) -> None:
        self.spec = spec
        self.created = int(time.time())
        source = Payloads()
        distinct = max(1, min(PAYLOADS, PAYLOAD_BYTES // spec.record_bytes, spec.records))
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
        self._kept: dict[tuple[int, int, int], bytes] = {}
        for shard in range(spec.shards):
            for page in range(spec.pages):
                self.page(shard, page * spec.page_records, spec.page_records)

    def page(self, shard: int, first: int, limit: int) -> bytes:
        """The body of an answer that begins at a record (from 0) of a shard (from 0)."""
        count = min(limit, self.spec.page_records, self.spec.shard_records - first)
        if count <= 0:
            return self._body(shard, first, 0)
        key = (shard, first, count)
        body = self._kept.get(key)
        if body is None:
            body = self._kept[key] = self._body(shard, first, count)
        return body

    def first_sequence_number(self, shard: int) -> str:
        """No record of the shard is below it."""
        return str(self._bases[shard])

    def index_of(self, shard: int, sequence_number: str) -> int:
        """The first record (from 0) whose sequence number is at least this one."""
        return max(0, -((self._bases[shard] - int(sequence_number)) // self._step) - 1)

    def index_at(self, seconds: float) -> int:
        """The first record of any shard that arrived at or after a time, seconds since the epoch."""
        wanted = round(seconds * 1000)
        low, high = 0, self.spec.shard_records
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._arrival_ms(middle) < wanted else (low, middle)
        return low

    def _arrival_ms(self, index: int) -> int:
        behind = SPREAD_MS * (self.spec.shard_records - index) // max(1, self.spec.shard_records)
        return self.created * 1000 - behind

    def _body(self, shard: int, first: int, count: int) -> bytes:
        after = first + count
        behind = 0
        if after < self.spec.shard_records:
            behind = max(LEAST_BEHIND_MS, self.created * 1000 - self._arrival_ms(after))
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
    """The token of a place in a stream; it never expires."""
    return f"{stream}:{shard}:{index}"


def _arrival(milliseconds: int) -> bytes:
    """The beginning of a record: its arrival, written as the service writes it, without the exponent."""
    digits = b"%d" % milliseconds
    return b'{"ApproximateArrivalTimestamp":' + digits[:1] + b"." + digits[1:]
