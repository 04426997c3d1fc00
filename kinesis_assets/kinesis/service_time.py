"""The service's clock, as the `Date` headers of its responses show it.

One header may be wrong, and what is concluded from it may be for good: when a shard was last read to its
tip, where a stream begins. So a time counts only if an independent response agrees with it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

TOLERANCE = timedelta(minutes=5)
"""Responses that are this far apart agree: each may come from another host, after retries."""

ITERATOR_LIFETIME = timedelta(minutes=5)
"""A shard iterator expires after it (AWS API reference, GetShardIterator)."""


UNCERTAIN = "ServiceTimeUncertain"
"""The code of the `CallFailed` for a response whose time does not agree with that of the one before."""


def agree(earlier: datetime, later: datetime, *, apart: timedelta = timedelta()) -> bool:
    """Whether the times of two responses agree.

    Args:
        earlier: Of the response that was requested first.
        later: Of the other one.
        apart: The longest time that can be between them.
    """
    return earlier - TOLERANCE <= later <= earlier + apart + TOLERANCE
