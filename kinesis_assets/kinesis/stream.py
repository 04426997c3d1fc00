"""Which stream it is, and what the service tells of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec


class StreamIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which stream it is; a stream created again under its name is another one.

    Attributes:
        arn: The stream's ARN.
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
    """What DescribeStreamSummary tells.

    Attributes:
        identity: Which stream it is.
        service_time: The service's clock at the answer, UTC, whole seconds, rounded down.
    """

    identity: StreamIdentity
    service_time: datetime
