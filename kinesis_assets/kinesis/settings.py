"""The settings of the Kinesis client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.page_sizes import PageSizes
from kinesis_assets.kinesis.read_timing import ReadTiming

if TYPE_CHECKING:
    from kinesis_assets.kinesis.role import AssumedRole

CONNECTIONS = 64
"""The connections that a client keeps open. A task makes as many calls at once, each for another shard."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The settings of the Kinesis client. None leaves a setting to the AWS SDK's own chain. Holds no secret.

    Attributes:
        region_name: As for boto3.
        endpoint_url: As for boto3.
        profile_name: As for boto3.
        sdk_parser: Whether the SDK alone requests and parses records. It returns the same records at several
            times the CPU, with fewer pages at once.
        max_pool_connections: As for boto3, see `CONNECTIONS`.
        timing: When the stream is called, and how long responses are awaited.
        page_sizes: How much is requested and handled at once.
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
