"""The settings of the Kinesis client: endpoint and credentials, timing, and the sizes of pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.clock import MACHINE_CLOCK, Clock
from kinesis_assets.retry import Backoff, RetryPolicy, full_jitter

if TYPE_CHECKING:
    from kinesis_assets.kinesis.role import AssumedRole


CALLS_PER_SECOND = 5
"""The GetRecords calls per second that a shard allows all of its consumers together, without enhanced fan-out
(AWS, Kinesis quotas)."""

BYTES_PER_SECOND = 2_000_000
"""The read rate of a shard. After a larger page it throttles calls until the rate is met (AWS API reference,
GetRecords)."""


@dataclass(frozen=True, slots=True)
class ReadTiming:
    """When a stream is called, and how long a reader waits. Can be pickled.

    Only tests and benchmarks replace the defaults.

    Attributes:
        bytes_per_second: The bytes per second that are read of a shard.
        wait_jitter: The maximum part by which a wait between two calls is longer than these rates demand. It
            leaves gaps for other consumers, see `reading.calls`.
        page_retries: The attempts to read one page. Throttled calls do not count as attempts; the time
            without progress limits them. They do count for the wait, except after calls that exceeded the
            rates, whose wait depends on the share of the rates.
        list_retries: The attempts to list the shards, if a list is incomplete or stale.
        stall_seconds: Seconds without a record and without approaching the tip faster than time passes, after
            which a shard fails.
        retry_seconds: Seconds for which a failing shard is retried while the run's other shards wait for the
            commit.
        read_timeout: Maximum seconds without any data of a response.
        stop_poll_seconds: Seconds between a task's checks of the stop marker.
    """

    seconds_between_calls: float = 1 / CALLS_PER_SECOND
    bytes_per_second: float = BYTES_PER_SECOND
    wait_jitter: float = 0.05
    page_retries: RetryPolicy = RetryPolicy(6, Backoff(0.2, 5.0, full_jitter))
    list_retries: RetryPolicy = RetryPolicy(4, Backoff(0.5, 2.0))
    stall_seconds: float = 300.0
    retry_seconds: float = 30.0
    connect_timeout: float = 5.0
    read_timeout: float = 20.0
    stop_poll_seconds: float = 1.0
    clock: Clock = MACHINE_CLOCK

    @classmethod
    def of_share(cls, calls_per_second: float) -> Self:
        """Return the timing of a reader that leaves the rest of a shard's rates to other consumers.

        Args:
            calls_per_second: The calls per second to a shard, at most `CALLS_PER_SECOND`. It is given the
                same share of the bytes per second.
        """
        return cls(
            seconds_between_calls=1 / calls_per_second,
            bytes_per_second=BYTES_PER_SECOND * calls_per_second / CALLS_PER_SECOND,
        )


PAGE_LIMIT = 10_000
"""The maximum number of records in a page (AWS API reference, GetRecords)."""

LARGEST_BODY = 16 << 20
"""Maximum size of a response body, in bytes. The service returns at most 10 MiB, as base64 in JSON."""


@dataclass(frozen=True, slots=True)
class PageSizes:
    """How much a reader requests and handles at once.

    Only tests and benchmarks replace the defaults.

    Attributes:
        page: The maximum number of records in a page, and the approximate number of records in a batch, if
            the page has aggregates.
        smallest_request: The minimum number of records to request, unless a quota is lower.
        sub_records: The maximum number of sub-records that are extracted at once: an aggregate can have a
            million.
        largest_body: The maximum size of a response body, in bytes. After a longer one, fewer records are
            requested.
    """

    page: int = PAGE_LIMIT
    smallest_request: int = 100
    sub_records: int = 10_000
    largest_body: int = LARGEST_BODY


CONNECTIONS = 64
"""The connections that a client keeps open. A task makes as many calls at once, each for another shard."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The settings of the Kinesis client, most as for boto3. Holds no secret.

    None leaves a setting to the AWS SDK's own chain.

    Attributes:
        sdk_parser: Whether the SDK alone requests and parses records. It returns the same records at several
            times the CPU, with fewer pages at once.
        max_pool_connections: See `CONNECTIONS`.
        role: The role that makes the calls; None for the credentials of the SDK's own chain.

    Raises:
        InvalidInput: The endpoint URL contains a user or a password.
    """

    region_name: str | None = None
    endpoint_url: str | None = None
    profile_name: str | None = None
    sdk_parser: bool = False
    max_pool_connections: int = CONNECTIONS
    timing: ReadTiming = ReadTiming()
    page_sizes: PageSizes = PageSizes()
    role: AssumedRole | None = None

    def __post_init__(self) -> None:
        if "@" in (self.endpoint_url or ""):
            raise InvalidInput(
                "the endpoint URL must not contain a user or password; requests are signed with the "
                "credentials of the SDK's chain"
            )
