"""The service's clock, from the `Date` headers of its responses.

A header may be wrong, and what is derived from it may be permanent: the time at which a shard was last read
to its tip, or the start of a stream. So a time is used only if an independent response agrees with it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

TOLERANCE = timedelta(minutes=5)
"""The maximum difference of responses that agree: each may come from another host, and after retries."""

ITERATOR_LIFETIME = timedelta(minutes=5)
"""The time after which a shard iterator expires (AWS API reference, GetShardIterator)."""

UNCERTAIN = "ServiceTimeUncertain"
"""The code of the `CallFailed` for a response whose time does not agree with the previous response."""


def agree(earlier: datetime, later: datetime, *, apart: timedelta = timedelta()) -> bool:
    """Whether the times of two responses agree.

    Args:
        earlier: The time of the response that was requested first.
        later: The time of the other response.
        apart: The maximum time that can be between them.
    """
    return earlier - TOLERANCE <= later <= earlier + apart + TOLERANCE
