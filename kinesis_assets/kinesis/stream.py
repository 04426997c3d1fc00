"""A stream's address, identity, description and shards with their lineage, and the service's clock.

The clock is read from the `Date` headers of its responses. A header may be wrong, and what is derived
from it may be permanent: the time at which a shard was last read to its tip, or the start of a stream. So a
time is used only if an independent response agrees with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from kinesis_assets.errors import InvalidInput, ServiceTimeUncertain, StreamRecreated
from kinesis_assets.kinesis.position import NUMBER, Position

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

CLOCK_STEP = timedelta(seconds=1)
"""The resolution of the service's clock: `Date` headers are in whole seconds, rounded down, so an event up to
now happened before the next second."""


class StreamIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The identity of a stream; a stream that is deleted and created again has another identity.

    Attributes:
        created: StreamCreationTimestamp, UTC.
    """

    arn: str
    created: datetime

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.arn.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """The description of a stream by DescribeStreamSummary.

    Attributes:
        service_time: The service's clock at the response, UTC, in whole seconds, rounded down.
        on_demand: Whether the capacity mode is ON_DEMAND; None if the service does not name the mode. An
            on-demand stream can be switched to the record distribution strategy AUTO and back at any time.
            Under AUTO the service ignores partition keys and explicit hash keys, and producers may omit
            partition keys.
        record_distribution: The record distribution strategy; None if the service does not name one.
    """

    identity: StreamIdentity
    service_time: datetime
    retention_hours: int
    on_demand: bool | None = None
    record_distribution: str | None = None

    @property
    def oldest_kept(self) -> datetime:
        """The time before which records have expired, by the service's clock and the stream's retention."""
        return self.service_time - timedelta(hours=self.retention_hours)

    def require(self, identity: StreamIdentity, when: str, advice: str = "") -> None:
        """Check that the stream is still the same one.

        Args:
            when: When it may have been recreated, and what that means for what the caller does.

        Raises:
            StreamRecreated: It was deleted and created again.
        """
        if self.identity != identity:
            raise StreamRecreated(self.identity.name, f"deleted and created again {when}", advice=advice)

    def with_earlier_time(self, date: datetime) -> StreamSummary:
        """Return this summary with the earlier one of its own time and the time of the next response.

        Raises:
            ServiceTimeUncertain: The two times do not agree.
        """
        if not agree(self.service_time, date):
            raise self._uncertain(date)
        return replace(self, service_time=min(self.service_time, date))

    def confirm_with(self, later: StreamSummary) -> StreamSummary:
        """Return the later one of this description and the next one.

        Raises:
            ServiceTimeUncertain: The next description is older than this one.
        """
        if later.service_time < self.service_time - TOLERANCE:
            raise self._uncertain(later.service_time)
        return later

    def _uncertain(self, date: datetime) -> ServiceTimeUncertain:
        return ServiceTimeUncertain(
            self.identity.name,
            f"one response has the Date {self.service_time}, and the next one {date}; nothing was changed. "
            "Run again; if the error persists, check the service at the endpoint",
        )


@dataclass(frozen=True, slots=True)
class StreamListing:
    """A stream and all its shards at one time, parents before children.

    Attributes:
        summary: The description, requested before the shards. The time of their response agrees with it, so a
            shard that is not listed was opened after `service_time`.
    """

    summary: StreamSummary
    shards: Sequence[Shard]

    def with_retention(self, hours: int) -> StreamListing:
        """Return this listing with another retention."""
        return replace(self, summary=replace(self.summary, retention_hours=hours))


_ARN = re.compile(
    r"arn:aws[a-z0-9-]{0,20}:kinesis:(?P<region>[a-z0-9-]{1,40}):(?P<account>[0-9]{12}):stream/(?P<name>[^/]+)",
    re.ASCII,
)
"""The pattern of the API, restricted where the API leaves it open (AWS API reference, StreamARN)."""

_CONSUMER = re.compile(r"(?P<stream>arn:[^/]+:stream/[^/]+)/consumer/.*")


@dataclass(frozen=True, slots=True)
class StreamAddress:
    """A stream as it was configured: by its name alone, or by its ARN. All calls use the same form."""

    name: str
    arn: str | None = None

    @classmethod
    def parse(cls, text: str) -> StreamAddress:
        """Parse a name or an ARN. Raises `InvalidInput` if the text is neither."""
        if NAME.fullmatch(text):
            return cls(text)
        if not text.startswith("arn:"):
            raise InvalidInput(
                f"invalid stream name {text[:80]!r}: give 1 to 128 letters, digits, '_', '.' or '-', or the "
                "ARN of a stream"
            )
        if consumer := _CONSUMER.fullmatch(text):
            raise InvalidInput(
                f"{text[:300]!r} is the ARN of a consumer; give the ARN of its stream, "
                f"{consumer['stream'][:200]!r}"
            )
        found = _ARN.fullmatch(text)
        if found is None or not NAME.fullmatch(found["name"]):
            raise InvalidInput(
                f"invalid stream ARN {text[:300]!r}; the form is "
                "arn:aws:kinesis:us-east-1:123456789012:stream/orders"
            )
        return cls(found["name"], text)

    def __str__(self) -> str:
        return self.arn or self.name

    @property
    def arguments(self) -> dict[str, str]:
        """The arguments that name the stream in a call."""
        return {"StreamName": self.name} if self.arn is None else {"StreamARN": self.arn}

    def may_have(self, arn: str, region_name: str | None) -> bool:
        """Whether an ARN may be that of this stream in a region: a name alone does not name an account."""
        if self.arn is not None:
            return arn == self.arn
        found = _ARN.fullmatch(arn)
        return found is not None and (found["name"], found["region"]) == (self.name, region_name)

    def region_name(self, configured: str | None) -> str | None:
        """Return the region to call: that of the ARN or, without an ARN, the one that settings name, if any.

        Raises:
            InvalidInput: The two regions differ.
        """
        if self.arn is None:
            return configured
        region = self.arn.split(":")[3]
        if configured not in {None, region}:
            raise InvalidInput(
                f"stream {self.arn} is in region {region}, but region_name is {configured}; "
                "remove region_name"
            )
        return region


NAME = re.compile(r"[a-zA-Z0-9_.-]{1,128}")
"""The names of streams and of shards (AWS API reference, CreateStream and Shard)."""

SHORTEST_RETENTION = timedelta(hours=24)
"""The minimum retention of a stream (AWS API reference, DecreaseStreamRetentionPeriod). A younger record
cannot have expired, even if the retention was increased later."""

_HASH_KEYS = 1 << 128

ALL_HASH_KEYS = ("0", str(_HASH_KEYS - 1))
"""The first and the last hash key of a stream; of a shard, if its own are not known."""


class Shard(msgspec.Struct, frozen=True):
    """A shard as ListShards returns it.

    Attributes:
        parents: The ids of the shards that were split or merged into this one: none, one or two.
        hash_range: The first and last hash key, both inclusive, as decimal text (they have 128 bits).
        starting_sequence_number: The lower bound of the shard's sequence numbers, as decimal text.
        closed: Whether it accepts no more records, because it was split or merged.
        ending_sequence_number: The EndingSequenceNumber of a closed shard, as decimal text. It may be smaller
            or larger than the number of the last record; it only serves to recognize a position at the end.
    """

    shard_id: str
    parents: tuple[str, ...]
    hash_range: tuple[str, str]
    starting_sequence_number: str
    closed: bool = False
    ending_sequence_number: str | None = None

    def ends_at(self, position: Position) -> bool:
        """Whether a position of another consumer means that it has read this shard to its end."""
        return self.ending_sequence_number is not None and position == Position.after(
            self.ending_sequence_number
        )


def is_well_formed(shard: Shard) -> bool:
    """Whether a shard's names and numbers have the form that the service documents."""

    def all_match(pattern: re.Pattern[str], *values: Any) -> bool:
        return all(isinstance(value, str) and pattern.fullmatch(value) for value in values)

    numbers = (*shard.hash_range, shard.starting_sequence_number, shard.ending_sequence_number or "0")
    return all_match(NAME, shard.shard_id, *shard.parents) and all_match(NUMBER, *numbers)


def in_lineage_order(shards: Iterable[Shard]) -> list[Shard]:
    """Sort shards by their starting sequence number and id, which puts parents before children."""
    # A child is created after its parents were closed, so its start is above all of their numbers.
    return sorted(shards, key=lambda shard: (int(shard.starting_sequence_number), shard.shard_id))


def ancestors(shards: Iterable[Shard], of: Iterable[str]) -> set[str]:
    """Return the ids of the shards from which some of the listed shards were split or merged, at any time."""
    parents = {shard.shard_id: shard.parents for shard in shards}
    pending = [shard_id for shard_id in of if shard_id in parents]
    found: set[str] = set()
    while pending:
        for parent in parents.get(pending.pop(), ()):
            if parent not in found:
                found.add(parent)
                pending.append(parent)
    return found


def covers_all_hash_keys(shards: Iterable[Shard]) -> bool:
    """Whether the open shards cover every hash key, as those of a stream always do.

    Source: https://docs.aws.amazon.com/streams/latest/dev/key-concepts.html (partition keys map to 128 bits)
    """
    ranges = sorted(tuple(map(int, shard.hash_range)) for shard in shards if not shard.closed)
    following = 0
    for first, last in ranges:
        if first > following:
            return False
        following = max(following, last + 1)
    return following == _HASH_KEYS


def unfinished_parents(
    parents: Iterable[str], *, known: Container[str], finished: Container[str]
) -> tuple[str, ...]:
    """Return the parents that must be read to their end before their child.

    Args:
        known: The id of every shard that is listed now or was ever recorded. A parent that is not among them
            was trimmed before the stream was first listed, so its child does not wait for it.
        finished: The ids of the shards that have been read to their end.
    """
    return tuple(parent for parent in parents if parent in known and parent not in finished)


TOLERANCE = timedelta(minutes=5)
"""The maximum difference of responses that agree: each may come from another host, and after retries."""

ITERATOR_LIFETIME = timedelta(minutes=5)
"""The time after which a shard iterator expires (AWS API reference, GetShardIterator)."""

UNCERTAIN = "ServiceTimeUncertain"
"""The code of the `CallFailed` for a response whose time does not agree with the previous response."""


def agree(earlier: datetime, later: datetime, *, apart: timedelta = timedelta()) -> bool:
    """Whether the times of two responses agree."""
    return earlier - TOLERANCE <= later <= earlier + apart + TOLERANCE
